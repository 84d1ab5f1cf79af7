# Two commands for newcomers: `make run` and `make test`. Both install what is missing first.
.PHONY: run test bench check lint macos-check screenshots

run:
	@packaging/setup.sh run
	cargo build --release --locked -p mlx-dspark
	target/release/mlx-dspark starter
	target/release/mlx-dspark app --model starter

test:
	@packaging/setup.sh test
	cargo nextest run --workspace --locked --no-fail-fast

# A part only: make bench ARGS="--only decoding"
bench:
	@packaging/setup.sh bench
	tests/bench/bench.sh $(ARGS)

# What CI checks beside the tests.
check: lint macos-check

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Type-checks the whole workspace for a Mac, and mlx-c's symbols against the Metal library.
macos-check:
	@packaging/check-macos.sh
	@packaging/check-mlx-symbols.sh

screenshots:
	@packaging/setup.sh test
	packaging/screenshots.sh
