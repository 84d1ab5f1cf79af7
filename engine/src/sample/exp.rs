//! Lives in `dspark-speculate`, beside `shape`.
