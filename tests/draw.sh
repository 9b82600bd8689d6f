# shellcheck shell=bash
# Sourced: `draw`, a number that is another each day, by which a test of check.sh --full chooses what of its cases it
# runs: over as many days as it has parts it runs all. ROTA_DRAW, where that is set, repeats a day's. rota-faults
# --parts does the same.
draw=${ROTA_DRAW:-$(($(date +%s) / 86400))}
