//! Memory that a rank's arrays lie in, surrounded by poison: every byte around them must stay as it was.

#[cfg(feature = "cuda")]
use super::gpu::{self, DeviceBuffer};
use super::scribble;
use boxwise::{Communicator, SharedBuffer};
use fastrand::Rng;
use std::borrow::Cow;

/// Where a rank's arrays lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// In memory that the ranks share.
    Shared,
    /// In memory of the process.
    Plain,
    /// At random in one or the other, on every rank for itself.
    Mixed,
    /// In the symmetric heap of the GPUs.
    #[cfg(feature = "cuda")]
    Device,
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

/// Memory of a rank that the others reach.
enum Reachable {
    Host(SharedBuffer),
    #[cfg(feature = "cuda")]
    Device(DeviceBuffer),
}

impl Reachable {
    fn pointer(&mut self) -> *mut u8 {
        match self {
            Reachable::Host(buffer) => buffer.as_mut_ptr(),
            #[cfg(feature = "cuda")]
            Reachable::Device(buffer) => buffer.pointer(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Reachable::Host(buffer) => buffer.len(),
            #[cfg(feature = "cuda")]
            Reachable::Device(buffer) => buffer.len(),
        }
    }
}

/// A supply of shared and plain memory, emptied all at once.
pub struct Supply {
    shared: Reachable,
    used: usize,
    plain: Vec<Box<[u8]>>,
    kinds: Kinds,
}

impl Supply {
    /// Collective: every rank takes `bytes` of shared memory.
    pub fn new(comm: &Communicator, bytes: usize, kinds: Kinds) -> boxwise::Result<Supply> {
        let shared = match kinds {
            #[cfg(feature = "cuda")]
            Kinds::Device => Reachable::Device(DeviceBuffer::new(bytes).map_err(boxwise::Error::invalid_state)?),
            _ => Reachable::Host(comm.allocate(bytes)?),
        };
        Ok(Supply { shared, used: 0, plain: Vec::new(), kinds })
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
            #[cfg(feature = "cuda")]
            Kinds::Device => {
                assert!(self.used + 128 + bytes <= self.shared.len(), "the supply of device memory is too small");
                true
            }
        };
        let first = self.used.next_multiple_of(64) + offset;
        if shared && first + bytes <= self.shared.len() {
            self.used = first + bytes;
            return self.shared.pointer().wrapping_add(first);
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
    kinds: Kinds,
    pub expected: Vec<u8>,
    free: Vec<bool>,
}

impl Area {
    /// `bytes` of memory full of poison.
    pub fn new(supply: &mut Supply, random: &mut Rng, bytes: usize) -> Area {
        let mut expected = vec![0; bytes];
        scribble(&mut expected, random.u64(..));
        let (base, kinds, free) = (supply.take(random, bytes), supply.kinds, vec![false; bytes]);
        let mut area = Area { base, kinds, expected, free };
        area.write();
        area
    }

    pub fn pointer(&self, at: usize) -> *mut u8 {
        self.base.wrapping_add(at)
    }

    /// Makes the memory what is expected of it.
    pub fn write(&mut self) {
        match self.kinds {
            #[cfg(feature = "cuda")]
            Kinds::Device => gpu::driver().write(self.base, &self.expected),
            // SAFETY: the supply gave these bytes to this area alone.
            _ => unsafe { self.base.copy_from_nonoverlapping(self.expected.as_ptr(), self.expected.len()) },
        }
    }

    /// What the memory is.
    fn read(&self) -> Cow<'_, [u8]> {
        match self.kinds {
            #[cfg(feature = "cuda")]
            Kinds::Device => {
                let mut found = vec![0; self.expected.len()];
                gpu::driver().read(self.base, &mut found);
                found.into()
            }
            // SAFETY: as in `write`; the peers have finished with it, which is what is being tested.
            _ => unsafe { std::slice::from_raw_parts(self.base, self.expected.len()) }.into(),
        }
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
        let found = &self.read()[..];
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
