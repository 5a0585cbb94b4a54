//! What the targets for archives share: a folder of their own, and checksums that hold, which no fuzzer finds.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

const BLOCK: usize = 512;

static MADE: AtomicU64 = AtomicU64::new(0);

/// A folder that goes with this.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new() -> Self {
        let name = format!("ronde-fuzz-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("it can be removed");
    }
}

/// Makes the checksums of headers right, wherever the sizes in them lead.
pub fn mend(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(block) = bytes.get_mut(at..at + BLOCK) {
        if block.iter().any(|byte| *byte != 0) {
            block[148..156].fill(b' ');
            let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        let digits: String =
            block[124..136].iter().map(|byte| char::from(*byte)).filter(char::is_ascii_digit).collect();
        let size = usize::from_str_radix(&digits, 8).unwrap_or(0).min(bytes.len());
        at += BLOCK + size.next_multiple_of(BLOCK);
    }
    bytes
}
