//! Memory that a rank's arrays lie in, surrounded by poison: every byte around them must stay as it was.

use super::scribble;
use boxwise::{Communicator, SharedBuffer};
use fastrand::Rng;

/// Where a rank's arrays lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// In memory that the ranks share.
    Shared,
    /// In memory of the process.
    Plain,
    /// At random in one or the other, on every rank for itself.
    Mixed,
}

impl Kinds {
    pub fn named(name: &str) -> Kinds {
        match name {
            "shared" => Kinds::Shared,
            "plain" => Kinds::Plain,
            "mixed" => Kinds::Mixed,
            other => panic!("memory kinds are shared, plain or mixed, not {other}"),
        }
    }
}

/// A supply of shared and plain memory, emptied all at once.
pub struct Supply {
    shared: SharedBuffer,
    used: usize,
    plain: Vec<Box<[u8]>>,
    kinds: Kinds,
}

impl Supply {
    /// Collective: every rank takes `bytes` of shared memory.
    pub fn new(comm: &Communicator, bytes: usize, kinds: Kinds) -> boxwise::Result<Supply> {
        Ok(Supply { shared: comm.allocate(bytes)?, used: 0, plain: Vec::new(), kinds })
    }

    /// Everything taken so far is given back.
    pub fn reset(&mut self) {
        self.used = 0;
        self.plain.clear();
    }

    /// `bytes` of memory at any alignment or a good one.
    pub fn take(&mut self, random: &mut Rng, bytes: usize) -> *mut u8 {
        let offset = if random.bool() { 0 } else { random.usize(0..64) };
        let shared = match self.kinds {
            Kinds::Shared => true,
            Kinds::Plain => false,
            Kinds::Mixed => random.bool(),
        };
        let first = self.used.next_multiple_of(64) + offset;
        if shared && first + bytes <= self.shared.len() {
            self.used = first + bytes;
            return self.shared.as_mut_ptr().wrapping_add(first);
        }
        self.plain.push(vec![0; bytes + offset + 64].into_boxed_slice());
        let block = self.plain.last_mut().expect("just pushed");
        let aligned = block.as_ptr().align_offset(64);
        block.as_mut_ptr().wrapping_add(aligned + offset)
    }
}

/// A piece of memory, what each of its bytes must be, and which bytes may be anything.
pub struct Area {
    base: *mut u8,
    pub expected: Vec<u8>,
    free: Vec<bool>,
}

impl Area {
    /// `bytes` of memory full of poison.
    pub fn new(supply: &mut Supply, random: &mut Rng, bytes: usize) -> Area {
        let mut expected = vec![0; bytes];
        scribble(&mut expected, random.u64(..));
        let mut area = Area { base: supply.take(random, bytes), expected, free: vec![false; bytes] };
        area.write();
        area
    }

    pub fn pointer(&self, at: usize) -> *mut u8 {
        self.base.wrapping_add(at)
    }

    /// Makes the memory what is expected of it.
    pub fn write(&mut self) {
        // SAFETY: the supply gave these bytes to this area alone.
        unsafe { self.base.copy_from_nonoverlapping(self.expected.as_ptr(), self.expected.len()) }
    }

    /// Lets these bytes be anything.
    pub fn release(&mut self, at: usize, bytes: usize) {
        self.free[at..at + bytes].fill(true);
    }

    /// Takes `release` back.
    pub fn promise(&mut self, at: usize, bytes: usize) {
        self.free[at..at + bytes].fill(false);
    }

    /// Says which byte is wrong, if one is.
    pub fn check(&self, what: &str) -> Result<(), String> {
        // SAFETY: as in `write`; the peers have finished with it, which is what is being tested.
        let found = unsafe { std::slice::from_raw_parts(self.base, self.expected.len()) };
        let wrong = |at: &usize| found[*at] != self.expected[*at] && !self.free[*at];
        match (found != self.expected).then(|| (0..found.len()).find(wrong)).flatten() {
            None => Ok(()),
            Some(at) => {
                let count = (0..found.len()).filter(wrong).count();
                let (seen, right) = (found[at], self.expected[at]);
                Err(format!("{what}: byte {at} of {} is {seen:#04x}, must be {right:#04x}; {count} wrong", found.len()))
            }
        }
    }

    /// Overwrites the memory: whoever still reads it reads rubbish.
    pub fn spoil(&mut self, random: &mut Rng) {
        scribble(&mut self.expected, random.u64(..));
        self.write();
    }
}
