#!/usr/bin/env python3
"""Runs a command on a terminal of its own, prints what it wrote there, and ends as it did. on_terminal.py COMMAND..."""
import os
import pty
import sys

child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        written = os.read(terminal, 65536)
    except OSError:  # nobody has its other end any more
        break
    if not written:
        break
    sys.stdout.buffer.write(written)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
