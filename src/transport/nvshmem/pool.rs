//! Pieces of symmetric memory for the slots of plans: allocated once by all PEs, then given out by each PE alone, since a
//! plan's ranks tell each other where their pieces lie.

use super::driver::clear;
use super::world::World;
use crate::error::{Error, Result, Status};
use std::sync::{Mutex, PoisonError};

/// Bytes of the pool: slots of 256 bytes for 65536 ranks in all living plans.
pub const POOL_BYTES: usize = 16 << 20;

/// The pool of this process.
#[derive(Debug)]
pub struct Pool {
    world: &'static World,
    pub address: u64,
    /// Free ranges, in order: offset and bytes.
    free: Mutex<Vec<(usize, usize)>>,
}

/// A zeroed piece, given back on drop.
#[derive(Debug)]
pub struct Claim {
    pool: &'static Pool,
    offset: usize,
    bytes: usize,
}

impl Pool {
    pub fn new(world: &'static World, address: u64) -> Pool {
        Pool { world, address, free: Mutex::new(vec![(0, POOL_BYTES)]) }
    }

    /// A piece of so many bytes, a multiple of 256.
    pub fn claim(&'static self, bytes: usize) -> Result<Claim> {
        let claim = self.take(bytes)?;
        let _entered = self.world.context.enter()?;
        clear(claim.address(), claim.bytes)?;
        Ok(claim)
    }

    fn take(&'static self, bytes: usize) -> Result<Claim> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free.iter().position(|(_, length)| *length >= bytes).ok_or_else(|| {
            Error::new(
                Status::OutOfMemory,
                format!(
                    "{bytes} bytes of symmetric memory for the signals of a plan: destroy plans that are not needed"
                ),
            )
        })?;
        let (offset, length) = free[found];
        match length == bytes {
            true => drop(free.remove(found)),
            false => free[found] = (offset + bytes, length - bytes),
        }
        Ok(Claim { pool: self, offset, bytes })
    }

    fn give_back(&self, offset: usize, bytes: usize) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.partition_point(|(other, _)| *other < offset);
        free.insert(at, (offset, bytes));
        // Neighbours become one.
        for left in [at, at.wrapping_sub(1)] {
            if let (Some(&(first, length)), Some(&(second, more))) = (free.get(left), free.get(left.wrapping_add(1)))
                && first + length == second
            {
                free[left] = (first, length + more);
                free.remove(left + 1);
            }
        }
    }
}

impl Claim {
    /// Where it is.
    pub fn address(&self) -> u64 {
        self.pool.address + self.offset as u64
    }

    /// Never gives it back: another rank may still write to it.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.pool.give_back(self.offset, self.bytes);
    }
}
