"""Exceptions: one for each status of the library, with the library's sentence."""


class Error(RuntimeError):
    """What a call of rota raises; `status` is the library's name of what happened."""

    status = "INTERNAL"


class InvalidArgument(Error, ValueError):
    status = "INVALID_ARGUMENT"


class OutOfRange(Error, IndexError):
    status = "OUT_OF_RANGE"


class Misaligned(Error, ValueError):
    status = "MISALIGNED"


class Overlap(Error, ValueError):
    status = "OVERLAP"


class WrongState(Error):
    status = "WRONG_STATE"


class NotFound(Error, LookupError):
    status = "NOT_FOUND"


class AlreadyExists(Error, ValueError):
    status = "ALREADY_EXISTS"


class UndefinedData(Error):
    status = "UNDEFINED_DATA"


class Unsupported(Error):
    status = "UNSUPPORTED"


class OutOfMemory(Error, MemoryError):
    status = "OUT_OF_MEMORY"


class Busy(Error, BlockingIOError):
    status = "BUSY"


class Timeout(Error, TimeoutError):
    status = "TIMEOUT"


class DeviceLost(Error):
    status = "DEVICE_LOST"


class Refused(Error):
    status = "REFUSED"


class NodeFailed(Error):
    status = "NODE_FAILED"


class System(Error, OSError):
    status = "SYSTEM"


class Internal(Error):
    status = "INTERNAL"


class Cancelled(Error):
    """What `Ticket.cancel` left something out of, or a deadline did."""

    status = "CANCELLED"


BY_STATUS: dict[str, type[Error]] = {error.status: error for error in Error.__subclasses__()}
BY_STATUS["OK"] = Error
