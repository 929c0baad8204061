//! The symmetric heap: the same pieces at the same offsets on all PEs, each PE's memory mapped by all others.

use crate::meeting::{Meeting, map, unlink};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::io;

const ALIGNMENT: usize = 512;
const POISON: u8 = 0xb7;

/// One PE's heap, and those of the others as mapped here.
pub struct Heap {
    bytes: usize,
    /// By PE.
    mapped: Vec<u64>,
    /// Offset and bytes.
    pieces: BTreeMap<usize, usize>,
    pub pe: usize,
}

/// Calls a function of the driver's stand-in, if that is what is loaded.
fn tell_driver(function: &CStr, arguments: (u64, u64)) {
    // SAFETY: only looks for what is loaded; the functions take one or two numbers.
    unsafe {
        let driver = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if driver.is_null() {
            return;
        }
        let symbol = libc::dlsym(driver, function.as_ptr());
        if !symbol.is_null() {
            let call = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64, u64)>(symbol);
            call(arguments.0, arguments.1);
        }
    }
}

/// Whether a PE maps the memory of another.
pub fn is_reachable(from: usize, to: usize) -> bool {
    match std::env::var("GPU_SIM_REACHABLE").as_deref() {
        Ok("none") => from == to,
        Ok("odd") => from.abs_diff(to).is_multiple_of(2),
        _ => true,
    }
}

impl Heap {
    /// Maps the heaps of all PEs.
    pub fn new(name: &str, meeting: &Meeting) -> io::Result<Heap> {
        let bytes = std::env::var("GPU_SIM_HEAP").ok().and_then(|text| text.parse().ok()).unwrap_or(64 << 20);
        let map_of = |pe: usize| map(&format!("{name}-{pe}"), bytes).map(|base| base as u64);
        // In another order on each PE, so that addresses differ.
        let mut mapped = vec![0; meeting.pes];
        for step in 0..meeting.pes {
            let pe = (meeting.pe + step) % meeting.pes;
            mapped[pe] = map_of(pe)?;
        }
        meeting.barrier();
        unlink(&format!("{name}-{}", meeting.pe));
        Ok(Heap { bytes, mapped, pieces: BTreeMap::new(), pe: meeting.pe })
    }

    pub fn base(&self) -> u64 {
        self.mapped[self.pe]
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the heap of a PE is mapped here, for kernels; 0 if it is not reachable.
    pub fn reachable_base(&self, pe: usize) -> u64 {
        if is_reachable(self.pe, pe) { self.mapped[pe] } else { 0 }
    }

    /// The offset of an address of the own heap.
    pub fn offset(&self, address: u64) -> Option<usize> {
        let offset = address.checked_sub(self.base())? as usize;
        (offset < self.bytes).then_some(offset)
    }

    /// Where this place is in the heap of another PE, for the network.
    pub fn remote(&self, address: u64, bytes: usize, pe: usize) -> Option<u64> {
        let offset = self.offset(address)?;
        let (start, length) = self.pieces.range(..=offset).next_back()?;
        let inside = offset + bytes <= start + length && pe < self.mapped.len();
        inside.then(|| self.mapped[pe] + offset as u64)
    }

    /// A piece for all PEs: the first gap that is large enough.
    pub fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let mut offset = ALIGNMENT;
        for (start, length) in &self.pieces {
            if offset + bytes <= *start {
                break;
            }
            // Between two pieces there is always a gap.
            offset = (start + length).next_multiple_of(ALIGNMENT) + ALIGNMENT;
        }
        if offset + bytes > self.bytes {
            return None;
        }
        self.pieces.insert(offset, bytes);
        // SAFETY: the place lies in the heap, and nobody has it yet.
        unsafe { std::ptr::write_bytes((self.base() + offset as u64) as *mut u8, POISON, bytes) };
        let reachable = (0..self.mapped.len()).filter(|pe| is_reachable(self.pe, *pe));
        reachable.for_each(|pe| tell_driver(c"gpu_sim_register", (self.mapped[pe] + offset as u64, bytes as u64)));
        Some(self.base() + offset as u64)
    }

    /// Whether there was such a piece.
    pub fn free(&mut self, address: u64) -> bool {
        let Some(offset) = self.offset(address).filter(|offset| self.pieces.remove(offset).is_some()) else {
            return false;
        };
        self.mapped.iter().for_each(|base| tell_driver(c"gpu_sim_unregister", (base + offset as u64, 0)));
        true
    }

    /// Gives kernels memory that is no piece, such as the table of mapped heaps.
    pub fn show_driver(start: u64, bytes: u64) {
        tell_driver(c"gpu_sim_register", (start, bytes));
    }
}
