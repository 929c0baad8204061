//! Device memory for callers: symmetric, so equally large on all PEs whatever each of them asked for.

use super::device::{Device, Wanted, no_memory};
use super::driver::{Entered, clear};
use crate::error::{Error, Result, agree, encode_verdict};
use crate::transport::Communicator;
use crate::transport::communicator::Collective;
use crate::transport::control::Call;
use std::sync::{Mutex, PoisonError};

/// What boxwise allocated, of all communicators of this process.
static ALLOCATED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

impl Communicator {
    /// Zeroed memory of this rank's GPU in NVSHMEM's symmetric heap. Collective over all PEs, which the communicator must
    /// span; `bytes` may differ by rank. With `Err`, this rank's arguments are faulty.
    pub fn malloc_device(&self, bytes: Result<usize>) -> Result<*mut u8> {
        let mut collective = self.0.collective(Call::Malloc, None);
        all_are_well(&mut collective, &bytes)?;
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
        let entered = ready(&device);
        all_are_well(&mut collective, &entered)?;
        let address = world.malloc(&entered?, most).ok_or_else(|| no_memory(most));
        let cleared = address.and_then(|address| {
            let _entered = world.context.enter()?;
            clear(address, most).map(|()| address)
        });
        all_are_well(&mut collective, &cleared)?;
        let address = cleared?;
        ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner).push(address);
        Ok(std::ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Gives it back, if it is device memory, once the device has nothing left to do. Collective over all PEs: with one
    /// of them lost or its GPU out of order, it is never given back.
    pub(crate) fn free_device(&self, pointer: *mut u8) -> Option<Result<()>> {
        let address = pointer.addr() as u64;
        let mut allocated = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = allocated.iter().position(|other| *other == address)?;
        allocated.swap_remove(found);
        drop(allocated);
        let device = self.0.device.get()?;
        let entered = ready(device);
        let mut collective = self.0.collective(Call::Malloc, None);
        Some(all_are_well(&mut collective, &entered).and(entered).map(|entered| device.world().free(&entered, address)))
    }
}

/// Whether this rank can take part in what NVSHMEM does with all PEs: it would wait for ever for one that cannot.
fn ready(device: &Device) -> Result<Entered> {
    device.synchronize()?;
    device.context().enter()
}

/// The first fault on any rank.
fn all_are_well<T>(collective: &mut Collective<'_>, own: &Result<T>) -> Result<()> {
    let verdict = own.as_ref().map(drop).map_err(Error::clone);
    agree(&collective.exchange(&encode_verdict(&verdict))?)
}
