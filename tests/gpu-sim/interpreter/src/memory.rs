//! Address spaces. Shared and local memory are a block's and a thread's own, and have a window each in the generic space,
//! where no memory of a process can be; all else is memory of this process.

use crate::fault::Kind;
use crate::instruction::Space;
use crate::machine::{Access, Machine};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// What is wrong, without where.
pub type Wrong = (Kind, String);

const SHARED_WINDOW: u64 = 1 << 60;
const LOCAL_WINDOW: u64 = 1 << 61;
const WINDOW_BYTES: u64 = 1 << 32;

/// A block's shared memory, and what of it has been written.
#[derive(Debug)]
pub struct Shared {
    bytes: Vec<u8>,
    written: Vec<bool>,
}

impl Shared {
    pub fn new(bytes: usize) -> Shared {
        Shared { bytes: vec![0; bytes], written: vec![false; bytes] }
    }
}

/// The memory that one thread sees.
pub struct View<'a> {
    pub machine: &'a dyn Machine,
    pub shared: &'a mut Shared,
    pub local: &'a mut [u8],
}

/// A place, found from a space and an address.
enum Place {
    Shared(usize),
    Local(usize),
    Process(u64),
}

/// The first generic address of a space that has a window; 0 for one that is generic itself.
pub fn window(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        _ => 0,
    }
}

/// Whether a generic address is of this space.
pub fn is_in(space: Space, address: u64) -> bool {
    let in_window = |space| (window(space)..window(space) + WINDOW_BYTES).contains(&address);
    match space {
        Space::Shared | Space::Local => in_window(space),
        _ => !in_window(Space::Shared) && !in_window(Space::Local),
    }
}

fn locate(space: Space, address: u64) -> Place {
    match space {
        Space::Shared => Place::Shared(address as usize),
        Space::Local => Place::Local(address as usize),
        Space::Generic if is_in(Space::Shared, address) => Place::Shared((address - SHARED_WINDOW) as usize),
        Space::Generic if is_in(Space::Local, address) => Place::Local((address - LOCAL_WINDOW) as usize),
        _ => Place::Process(address),
    }
}

fn check_alignment(address: u64, bytes: usize) -> Result<(), Wrong> {
    if address.is_multiple_of(bytes as u64) {
        return Ok(());
    }
    Err((Kind::Alignment, format!("address {address:#x} is no multiple of {bytes}")))
}

fn inside<'a>(memory: &'a mut [u8], name: &str, at: usize, bytes: usize) -> Result<&'a mut [u8], Wrong> {
    let size = memory.len();
    let end = at.checked_add(bytes).filter(|end| *end <= size);
    end.map(|end| &mut memory[at..end])
        .ok_or_else(|| (Kind::Address, format!("{bytes} bytes at offset {at:#x} of {size:#x} bytes of {name} memory")))
}

impl View<'_> {
    /// Checks an access of several values of equal size that lie side by side.
    fn check(&mut self, place: &Place, bytes: usize, access: Access) -> Result<(), Wrong> {
        match place {
            Place::Shared(at) => {
                inside(&mut self.shared.bytes, "shared", *at, bytes)?;
                let written = &mut self.shared.written[*at..at + bytes];
                if access == Access::Write {
                    written.fill(true);
                } else if !written.iter().all(|written| *written) {
                    let what =
                        format!("{bytes} bytes at offset {at:#x} of shared memory are read before they are written");
                    return Err((Kind::Uninitialised, what));
                }
                Ok(())
            }
            Place::Local(at) => inside(self.local, "local", *at, bytes).map(drop),
            Place::Process(address) => {
                self.machine.check(*address, bytes, access).map_err(|what| (Kind::Address, what))
            }
        }
    }

    /// Reads `values` of `bytes` each.
    pub fn load(&mut self, space: Space, address: u64, bytes: usize, values: &mut [u64]) -> Result<(), Wrong> {
        let total = bytes * values.len();
        check_alignment(address, total)?;
        let place = locate(space, address);
        self.check(&place, total, Access::Read)?;
        for (index, value) in values.iter_mut().enumerate() {
            let skip = index * bytes;
            *value = match &place {
                Place::Shared(at) => from_bytes(&self.shared.bytes[at + skip..at + skip + bytes]),
                Place::Local(at) => from_bytes(&self.local[at + skip..at + skip + bytes]),
                // SAFETY: the machine said that the memory is there, and it is aligned.
                Place::Process(address) => unsafe { load(address + skip as u64, bytes) },
            };
        }
        Ok(())
    }

    /// Writes values of `bytes` each.
    pub fn store(&mut self, space: Space, address: u64, bytes: usize, values: &[u64]) -> Result<(), Wrong> {
        let total = bytes * values.len();
        check_alignment(address, total)?;
        let place = locate(space, address);
        self.check(&place, total, Access::Write)?;
        for (index, value) in values.iter().enumerate() {
            let skip = index * bytes;
            let text = &value.to_le_bytes()[..bytes];
            match &place {
                Place::Shared(at) => self.shared.bytes[at + skip..at + skip + bytes].copy_from_slice(text),
                Place::Local(at) => self.local[at + skip..at + skip + bytes].copy_from_slice(text),
                // SAFETY: the machine said that the memory is there, and it is aligned.
                Place::Process(address) => unsafe { store(address + skip as u64, bytes, *value) },
            }
        }
        Ok(())
    }

    /// Changes a value of 4 or 8 bytes at once, and returns what it was.
    pub fn change(
        &mut self,
        space: Space,
        address: u64,
        bytes: usize,
        change: impl Fn(u64) -> u64,
    ) -> Result<u64, Wrong> {
        check_alignment(address, bytes)?;
        let place = locate(space, address);
        self.check(&place, bytes, Access::Atomic)?;
        let memory = match &place {
            Place::Shared(at) => &mut self.shared.bytes[*at..at + bytes],
            Place::Local(at) => &mut self.local[*at..at + bytes],
            // SAFETY: the machine said that the memory is there, and it is aligned.
            Place::Process(address) => return Ok(unsafe { change_at(*address, bytes, change) }),
        };
        let old = from_bytes(memory);
        memory.copy_from_slice(&change(old).to_le_bytes()[..bytes]);
        Ok(old)
    }
}

/// A number from its bytes, at most eight.
pub fn from_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | *byte as u64)
}

/// # Safety
/// The address is that of memory of this process, and a multiple of `bytes`.
unsafe fn load(address: u64, bytes: usize) -> u64 {
    let order = Ordering::Acquire;
    // SAFETY: as the caller says. Whoever else uses the memory does so as a GPU's threads would.
    unsafe {
        match bytes {
            1 => (*(address as *const AtomicU8)).load(order) as u64,
            2 => (*(address as *const AtomicU16)).load(order) as u64,
            4 => (*(address as *const AtomicU32)).load(order) as u64,
            _ => (*(address as *const AtomicU64)).load(order),
        }
    }
}

/// # Safety
/// As for `load`.
unsafe fn store(address: u64, bytes: usize, value: u64) {
    let order = Ordering::Release;
    // SAFETY: as the caller says.
    unsafe {
        match bytes {
            1 => (*(address as *const AtomicU8)).store(value as u8, order),
            2 => (*(address as *const AtomicU16)).store(value as u16, order),
            4 => (*(address as *const AtomicU32)).store(value as u32, order),
            _ => (*(address as *const AtomicU64)).store(value, order),
        }
    }
}

/// # Safety
/// As for `load`, with 4 or 8 bytes.
unsafe fn change_at(address: u64, bytes: usize, change: impl Fn(u64) -> u64) -> u64 {
    let order = Ordering::SeqCst;
    // SAFETY: as the caller says.
    let old = unsafe {
        match bytes {
            4 => {
                let word = &*(address as *const AtomicU32);
                word.fetch_update(order, order, |old| Some(change(old as u64) as u32)).map(u64::from).map_err(u64::from)
            }
            _ => {
                let word = &*(address as *const AtomicU64);
                word.fetch_update(order, order, |old| Some(change(old)))
            }
        }
    };
    old.unwrap_or_else(|old| old)
}
