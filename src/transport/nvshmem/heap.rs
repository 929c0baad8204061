//! Device memory for callers: symmetric, so equally large on all PEs whatever each of them asked for.

use super::device::{Wanted, no_memory};
use super::driver::clear;
use crate::error::{Error, Result, agree, encode_verdict};
use crate::transport::Communicator;
use crate::transport::control::Call;
use std::sync::{Mutex, PoisonError};

/// What boxwise allocated, of all communicators of this process.
static ALLOCATED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

impl Communicator {
    /// Zeroed memory of this rank's GPU in NVSHMEM's symmetric heap. Collective over all PEs, which the communicator must
    /// span; `bytes` may differ by rank. With `Err`, this rank's arguments are faulty.
    pub fn malloc_device(&self, bytes: Result<usize>) -> Result<*mut u8> {
        let mut collective = self.0.collective(Call::Malloc, None);
        let verdict = bytes.as_ref().map(drop).map_err(Error::clone);
        agree(&collective.exchange(&encode_verdict(&verdict))?)?;
        let wishes = collective.exchange(&(bytes? as u64).to_ne_bytes())?;
        let wish = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let most = wishes.chunks_exact(8).map(wish).max().unwrap_or(0).max(1) as usize;
        let device = self.device(&mut collective, Wanted::Always)?.expect("it is wanted in any case");
        let world = device.world();
        if self.size() != world.pes as usize {
            return Err(Error::invalid_state(format!(
                "device memory is allocated by all {} PEs of NVSHMEM together, but the communicator has {} ranks",
                world.pes,
                self.size()
            )));
        }
        let address = world.malloc(most).ok_or_else(|| no_memory(most));
        let cleared = address.and_then(|address| {
            let _entered = world.context.enter()?;
            clear(address, most).map(|()| address)
        });
        let verdict = cleared.as_ref().map(drop).map_err(Error::clone);
        agree(&collective.exchange(&encode_verdict(&verdict))?)?;
        let address = cleared?;
        ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner).push(address);
        Ok(std::ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Gives it back, if it is device memory. Collective over all PEs: with one of them lost, it is never given back.
    pub(crate) fn free_device(&self, pointer: *mut u8) -> Option<Result<()>> {
        let address = pointer.addr() as u64;
        let mut allocated = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = allocated.iter().position(|other| *other == address)?;
        allocated.swap_remove(found);
        drop(allocated);
        // NVSHMEM would wait for ever.
        let all_are_here = self.0.collective(Call::Malloc, None).exchange(&[]);
        Some(all_are_here.map(|_| {
            if let Some(device) = self.0.device.get() {
                device.world().free(address);
            }
        }))
    }
}
