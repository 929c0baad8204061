//! NVSHMEM's PEs as ranks that can become a communicator: its host calls carry what they tell each other.

use super::device::no_memory;
use super::driver::{clear, read, write};
use super::world::World;
use crate::error::{Error, Result, Status};
use crate::transport::Boot;

/// Before what a PE tells: that it could.
const TOLD: u8 = 1;

/// The world of an NVSHMEM that the application has initialised.
pub struct NvshmemBoot {
    world: &'static World,
}

impl NvshmemBoot {
    pub fn new() -> Result<NvshmemBoot> {
        Ok(NvshmemBoot { world: World::join()? })
    }

    /// Writes this PE's part to its place in the memory of all.
    fn tell(&self, memory: u64, mine: &[u8]) -> Result<()> {
        let place = memory + self.world.pe as u64 * (1 + mine.len() as u64);
        write(place, &[&[TOLD], mine].concat())?;
        (0..self.world.pes).for_each(|pe| self.world.put(place, 1 + mine.len(), pe));
        Ok(())
    }
}

impl Boot for NvshmemBoot {
    fn rank(&self) -> usize {
        self.world.pe as usize
    }

    fn size(&self) -> usize {
        self.world.pes as usize
    }

    fn allgather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        let entered = self.world.context.enter()?;
        let part = 1 + mine.len();
        let bytes = self.size() * part;
        let memory = self.world.malloc(&entered, bytes).ok_or_else(|| no_memory(bytes))?;
        // Whatever fails here, the others meet this PE at both barriers, and miss its part.
        let cleared = clear(memory, bytes);
        self.world.barrier(&entered);
        let told = cleared.and_then(|()| self.tell(memory, mine));
        self.world.barrier(&entered);
        let mut parts = vec![0; bytes];
        let gathered = told.and_then(|()| read(memory, &mut parts));
        self.world.free(&entered, memory);
        gathered?;
        for (pe, (part, mine)) in parts.chunks_exact(part).zip(all.chunks_exact_mut(mine.len())).enumerate() {
            if part[0] != TOLD {
                return Err(Error::new(Status::Device, format!("PE {pe} of NVSHMEM could not use its GPU")));
            }
            mine.copy_from_slice(&part[1..]);
        }
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        let entered = self.world.context.enter()?;
        self.world.barrier(&entered);
        Ok(())
    }
}
