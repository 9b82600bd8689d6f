"""How a test that is a script says what it found."""
import sys


def end(faults, good):
    """Ends the script: with each fault on a line and how many there are, or with what is good."""
    for fault in faults:
        print(f"FAILED: {fault}")
    print(f"{len(faults)} faults" if faults else good)
    sys.exit(1 if faults else 0)
