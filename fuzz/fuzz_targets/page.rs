#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| peerlane_fuzz::page(bytes));
