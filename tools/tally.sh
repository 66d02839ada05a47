# shellcheck shell=bash
#
# Counts what tests did. Sourced by ./test, and run on planted logs by tidy/tests/tally.rs.
#
# A test that cannot run here appends `its name: reason` to the file named by PEERLANE_SKIP_LOG and
# returns. The test harness of Rust then calls it passed, so skips are taken off what passed. A test
# that is marked `#[ignore]` is a skip too.

# Prints `name: reason` for each ignored test in cargo's output $1.
ignored_tests() {
    sed -n -e 's/^test \(.*\) \.\.\. ignored, \(.*\)$/\1: \2/p' \
        -e 's/^test \(.*\) \.\.\. ignored$/\1: ignored without a reason/p' "$1"
}

# Prints how many tests each test program in cargo's output $1 left out.
tests_left_out() { sed -n 's/^test result: .* \([0-9][0-9]*\) filtered out;.*/\1/p' "$1"; }

# Prints `passed failed skipped` of a step whose cargo output is $1, exit status $2 and skip log $3.
#
# A step that failed without a failed test (it did not compile, or a test program was killed) counts
# as one failure.
tally() {
    local passed failed ignored skips
    read -r passed failed ignored < <(awk '
        /^test result: / {
            for (i = 2; i <= NF; i++) {
                if ($i == "passed;") passed += $(i - 1)
                if ($i == "failed;") failed += $(i - 1)
                if ($i == "ignored;") ignored += $(i - 1)
            }
        }
        END { print passed + 0, failed + 0, ignored + 0 }' "$1")
    skips=$(sort -u "$3" | grep -c .) || true
    if (($2 != 0 && failed == 0)); then failed=1; fi
    printf '%d %d %d\n' $((passed - skips)) "$failed" $((ignored + skips))
}

# Prints `passed failed skipped` of a step whose pytest output is $1 and exit status $2, by its last line.
#
# Tests that could not be set up count as failed, and so does a run that failed without one.
tally_pytest() {
    local passed failed skipped
    read -r passed failed skipped < <(awk '
        / in [0-9.]+s( |$)/ {
            passed = failed = skipped = 0
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed,?$/) passed = $(i - 1)
                if ($i ~ /^(failed|errors?),?$/) failed += $(i - 1)
                if ($i ~ /^skipped,?$/) skipped = $(i - 1)
            }
        }
        END { print passed + 0, failed + 0, skipped + 0 }' "$1")
    if (($2 != 0 && failed == 0)); then failed=1; fi
    printf '%d %d %d\n' "$passed" "$failed" "$skipped"
}

# Prints how often each reason occurs in `name: reason` lines on standard input, the most frequent first.
reasons() {
    sed 's/^[^ ]*: //' | sort | uniq -c | sort -rn |
        awk '{ count = $1; sub(/^ *[0-9]+ /, ""); printf "  %5d  %s\n", count, $0 }'
}
