//! What the tests share: the oracle, random cases, worlds of ranks, jobs of processes, and how to measure both.
#![allow(dead_code)] // every test uses a part

pub mod boots;
pub mod case;
pub mod example;
#[cfg(feature = "cuda")]
pub mod file_boot;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod harness;
pub mod job;
pub mod memory;
pub mod nodes;
#[cfg(feature = "cuda")]
pub mod nvshmem;
pub mod oracle;
pub mod play;
pub mod ranks;
pub mod shapes;
pub mod side;
pub mod usage;

/// A well-mixed number that depends on every one of `parts`: the source of all seeds and contents.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Fills `bytes` with what `key` and the position of each byte say.
pub fn scribble(bytes: &mut [u8], key: u64) {
    for (at, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = (key ^ at as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        chunk.copy_from_slice(&(word ^ (word >> 29)).to_le_bytes()[..chunk.len()]);
    }
}
