"""How a test that is a script says what it found."""
import sys


def end(faults, good):
    """Ends the script: with each fault on a line and how many there are, or with what is good."""
    for fault in faults:
        print(f"FAILED: {fault}")
    print(f"{len(faults)} faults" if faults else good)
    sys.exit(1 if faults else 0)


def want_planted(expected, faults):
    """Ends the script unless each of the planted faults was found, by a part of its line, and no other one."""
    missed = [what for what in expected if not any(what in fault for fault in faults)]
    if missed or len(faults) != len(expected):
        sys.exit(f"planted, and not found: {missed}; found: {faults}")
