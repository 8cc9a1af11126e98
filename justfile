# Development tasks; `just` without arguments lists them.

set positional-arguments

venv := ".venv"
bin := venv / "bin"

_default:
    @just --list --unsorted

# Create a virtual environment from the lock file
setup:
    python3 -m venv {{venv}}
    {{bin}}/pip install --quiet --require-hashes -r requirements/dev.lock
    {{bin}}/pip install --quiet --no-deps --no-build-isolation -e .

# Check style and formatting
lint:
    {{bin}}/ruff check .
    {{bin}}/ruff format --check .

# Fix style and format the code
format:
    {{bin}}/ruff check --fix .
    {{bin}}/ruff format .

# Check types
types:
    {{bin}}/mypy
    {{bin}}/pyright

# Check the layers between packages
layers:
    {{bin}}/lint-imports

# Run the tests as CI does; arguments go to pytest
test *args:
    {{bin}}/pytest -n 2 -m "not timing and not wheel" "$@"

# Run the tests with a coverage report; arguments go to pytest
coverage *args:
    {{bin}}/pytest -n 2 --cov --cov-report=term --cov-report=xml:coverage.xml "$@"

# Run the tests with time limits, one at a time; they print their figures
timing *args:
    {{bin}}/pytest -q -s -m timing "$@"

# Compare cron schedules with croniter and cronsim: 500 expressions, 1,000 times each, in five time zones
cron-reference:
    LITEMQ_CRON_WHOLE=1 {{bin}}/pytest -n 2 -q tests/unit/schedules/test_cron.py

# Run two thousand histories of deliveries and groups
histories:
    HYPOTHESIS_PROFILE=deep {{bin}}/pytest -n 2 -q tests/unit/broker/delivery/test_delivery_machine.py tests/unit/broker/groups/test_group_machine.py

# Explore schedules of a broker and its store: just schedules --minutes 10
schedules *args:
    {{bin}}/python -m tools.schedules "$@"

# Simulate a replicated group with faults, one run per seed: just simulate --seeds 0-499
simulate *args:
    {{bin}}/python -m tools.simulate "$@"

# Flip each byte of a small store once, and check what is detected, served and reported
flips:
    LITEMQ_FLIPS=all {{bin}}/pytest -n 2 -q tests/crash/test_flipped_bytes.py

# Kill brokers for a minute, and disturb one with slow, dead and too many peers; prints the results
chaos seconds="60":
    LITEMQ_CHAOS_SECONDS={{seconds}} {{bin}}/pytest -q -s tests/cluster/test_kill_brokers.py tests/cluster/test_slow_peers.py tests/cluster/test_poisoned.py

# Attack a cluster under a long mixed load, with a kill per minute: just attack --minutes 15
attack *args:
    {{bin}}/python -m tools.attack "$@"

# Disturb NameServers, etcd and replicated groups on hosts of their own: just chaos-cluster --minutes 30 --seed 2
chaos-cluster *args:
    {{bin}}/python -m tools.chaos_cluster "$@"

# The same as `chaos` while timers fire, cron jobs tick and transactions are decided
chaos-time seconds="60":
    LITEMQ_CHAOS_SECONDS={{seconds}} {{bin}}/pytest -q -s tests/cluster/test_kill_time.py

# Simulate ten years of timers, a minute each: inserts, cancels, retention, restarts, crashes, clock changes
year timers="6000" years="10":
    LITEMQ_YEAR_TIMERS={{timers}} LITEMQ_YEARS={{years}} {{bin}}/pytest -q -s tests/crash/test_year.py

# Back up a broker under load, again and again; restore and check each backup
backups count="200":
    LITEMQ_BACKUPS={{count}} {{bin}}/pytest -q -s -o faulthandler_timeout=0 tests/cluster/test_backups.py

# Kill the archive and a stream `kills` times each under load, and run the Spark examples twice
chaos-spark kills="30":
    LITEMQ_CHAOS_KILLS={{kills}} {{bin}}/pytest -q -s tests/spark/test_exactly_once.py tests/spark/test_examples.py

# Fuzz both decoders, then the loops in C: just fuzz --minutes 10
fuzz *args:
    #!/usr/bin/env bash
    set -eu
    {{bin}}/python fuzz/decoders.py scalar "$@" >fuzz/scalar.log 2>&1 & scalar=$!
    {{bin}}/python fuzz/decoders.py columns "$@" >fuzz/columns.log 2>&1 & columns=$!
    status=0
    wait $scalar || status=1
    wait $columns || status=1
    {{bin}}/python fuzz/decoders.py loops "$@" >fuzz/loops.log 2>&1 || status=1
    for target in scalar columns loops; do
        echo "== $target"
        grep -E "^(Done|stat::number_of_executed_units|stat::peak_rss_mb)|ERROR|Uncaught|Error:" fuzz/$target.log || tail -20 fuzz/$target.log
    done
    exit $status

# Fuzz the frame parser and every network handler, two targets at a time: just fuzz-net --minutes 10
fuzz-net *args:
    #!/usr/bin/env bash
    set -eu
    status=0
    run() { # run TARGET ARGUMENTS…
        {{bin}}/python -m fuzz.network "$@" >fuzz/$1.log 2>&1
    }
    for pair in "frames broker" "nameserver disk"; do
        read -r first second <<<"$pair"
        run $first "$@" & one=$!
        run $second "$@" & other=$!
        wait $one || status=1
        wait $other || status=1
    done
    for target in frames broker nameserver disk; do
        echo "== $target"
        grep -oE "cov: [0-9]+" fuzz/$target.log | tail -1 || true
        sed -n '/^opcode /,$p' fuzz/$target.log
        grep -qE "^$target: .* executions" fuzz/$target.log || tail -20 fuzz/$target.log
    done
    exit $status

# Run the tests of the format, the wire and the log with the code in C under AddressSanitizer and UBSan
sanitize *args:
    #!/usr/bin/env bash
    set -eu
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    cp -r src/litemq "$copy"
    include=$({{bin}}/python -c 'import sysconfig; print(sysconfig.get_path("include"))')
    build() { # build MODULE SOURCES…
        local module=$1
        shift
        cc -std=c11 -Wall -Wextra -Werror -g -O1 -fPIC -shared -pthread -fsanitize=address,undefined -fno-sanitize-recover=all \
            -I"$include" "$@" -o "$copy/litemq/$module.abi3.so"
    }
    format=src/litemq/format
    build format/_native $format/_native*.c
    build client/_sending src/litemq/client/_sending.c $format/_native_shared.c
    build client/_receiving src/litemq/client/_receiving.c $format/_native_shared.c $format/_native_records.c
    build storage/log/_group_sync src/litemq/storage/log/_group_sync.c
    preload="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)"
    # Python keeps its allocations until it ends, so leak detection is off.
    LD_PRELOAD="$preload" ASAN_OPTIONS=detect_leaks=0 PYTHONPATH="$copy" \
        {{bin}}/python -m pytest -q -p no:cacheprovider tests/unit/format tests/unit/net tests/unit/client/cluster/sending tests/unit/client/messages tests/unit/client/consuming tests/unit/client/test_identity.py tests/unit/storage/index/test_key_index.py tests/unit/storage/log tests/unit/storage/test_hot_path.py "$@"

# Run a benchmark suite: just bench format --check
bench suite="format" *args:
    shift || true; {{bin}}/litemq bench suite {{suite}} "$@"

# Profile a broker and its client at 200, 2,000 and 20,000 messages per second: just profile-tick --durability memory
profile-tick *args:
    {{bin}}/python -m tools.profile_tick "$@"

# Compare ways to make a small record durable
sync-ways *args:
    {{bin}}/python -m tools.sync_ways "$@"

# Compare benchmarks and start-up of two revisions, in alternating rounds: just compare v1 HEAD --suite broker
compare before *args:
    {{bin}}/python tools/compare.py "$@"

# Data written by one revision, opened by another: just compatibility v1 HEAD
compatibility before *args:
    {{bin}}/python -m tools.compatibility "$@"

# Update the lock files, which contain hashes but no index URLs
lock:
    {{bin}}/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --all-extras --group dev --group fuzz -o requirements/dev.lock pyproject.toml
    echo 'pyspark==4.2.0' | {{bin}}/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-deps -o requirements/older-spark.lock -
    echo 'grpcio-tools==1.72.0' | {{bin}}/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-deps -o requirements/protoc.lock -

# Generate Python from the schema
proto:
    #!/usr/bin/env bash
    set -eu
    protoc=$(mktemp -d)
    trap 'rm -rf "$protoc"' EXIT
    {{bin}}/uv pip install --quiet --python {{bin}}/python --no-deps --require-hashes --target "$protoc" -r requirements/protoc.lock
    PYTHONPATH="$protoc" {{bin}}/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src src/litemq/proto/*.proto

# Write docs/reference/ from the code
reference:
    {{bin}}/python tools/reference.py
    {{bin}}/python tools/engines_table.py

# Build the wheel and the source distribution
build:
    {{bin}}/python -m build --no-isolation

# Run the checks of CI in this environment
ci: lint types layers coverage
