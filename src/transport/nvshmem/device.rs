//! A communicator's way to its GPUs.

use super::driver::{Context, HostWords, check};
use super::kernels::Kernels;
use super::pool::{Claim, POOL_BYTES, Pool};
use super::watch::watch;
use super::world::{self, World};
use crate::error::{Error, Result, Status, VERDICT_BYTES, agree, catch_panic, encode_verdict};
use crate::transport::Communicator;
use crate::transport::communicator::Collective;
use cudarc::driver::sys;
use once_cell::sync::OnceCell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

static POOL: OnceCell<Pool> = OnceCell::new();
static KERNELS: OnceCell<Kernels> = OnceCell::new();

/// Whether NVSHMEM is initialised where nobody has done so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// No.
    IfInitialised,
    /// Yes.
    Always,
}

/// This process's GPU in a communicator. Clones are the same.
#[derive(Clone, Debug)]
pub struct Device(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    world: &'static World,
    pool: &'static Pool,
    kernels: &'static Kernels,
    /// The PE of each rank.
    pes: Vec<i32>,
    abort: Arc<HostWords>,
}

impl Communicator {
    /// The GPUs of this communicator; `None` where NVSHMEM is not initialised and is not wanted. Collective: all ranks
    /// return the same status.
    pub(crate) fn device(&self, collective: &mut Collective<'_>, wanted: Wanted) -> Result<Option<Device>> {
        // All have it, or nobody: each rank was told the same.
        if let Some(device) = self.0.device.get() {
            return Ok(Some(device.clone()));
        }
        let ready = catch_panic(|| match (world::is_initialised(), wanted) {
            (true, _) => Ok(true),
            (false, Wanted::IfInitialised) => Ok(false),
            (false, Wanted::Always) => world::prepare().map(|()| false),
        });
        let is_initialised = vote(collective, &ready)?;
        if !self.all_alike(&is_initialised)? {
            if wanted == Wanted::IfInitialised {
                return Ok(None);
            }
            self.initialise(collective)?;
        }
        let device = self.join(collective)?;
        Ok(Some(self.0.device.get_or_init(|| device).clone()))
    }

    /// Whether NVSHMEM is initialised, on all ranks or none.
    fn all_alike(&self, initialised: &[bool]) -> Result<bool> {
        let position = |wanted: bool| initialised.iter().position(|is| *is == wanted);
        match (position(true), position(false)) {
            (Some(with), Some(without)) => Err(Error::invalid_state(format!(
                "NVSHMEM is initialised on rank {with}, but not on rank {without}; initialise it on all ranks before, or on \
                 none, or set BOXWISE_OPTION_BACKEND to BOXWISE_BACKEND_HOST"
            ))),
            (with, _) => Ok(with.is_some()),
        }
    }

    fn initialise(&self, collective: &mut Collective<'_>) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        let own = if rank == 0 { catch_panic(world::new_id) } else { Ok([0; 128]) };
        vote(collective, &own.as_ref().map(|_| true).map_err(Error::clone))?;
        let ids = collective.exchange(&own.unwrap_or([0; 128]))?;
        let id = ids[..128].try_into().expect("an id has 128 bytes");
        let initialised = catch_panic(|| world::initialise(rank, size, id));
        vote(collective, &initialised.map(|()| true)).map(drop)
    }

    fn join(&self, collective: &mut Collective<'_>) -> Result<Device> {
        let size = self.size();
        let joined = catch_panic(World::join);
        vote(collective, &joined.as_ref().map(|_| true).map_err(Error::clone))?;
        let world = joined?;
        let numbers = collective.exchange(&[world.pe.to_ne_bytes(), world.pes.to_ne_bytes()].concat())?;
        let number = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().expect("four bytes"));
        let pes: Vec<i32> = numbers.chunks_exact(8).map(|both| number(&both[..4])).collect();
        if let Some(other) = numbers.chunks_exact(8).position(|both| number(&both[4..]) != world.pes) {
            return Err(Error::new(
                Status::Inconsistent,
                format!("ranks 0 and {other} belong to different NVSHMEM worlds"),
            ));
        }
        let mut sorted = pes.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::new(Status::Inconsistent, "two ranks of the communicator are one PE of NVSHMEM"));
        }
        // Allocating concerns all PEs; plans on some of them use what is there already.
        let has_pool = vote(collective, &Ok(POOL.get().is_some()))?;
        if !has_pool.iter().all(|has| *has) {
            if size != world.pes as usize || has_pool.iter().any(|has| *has) {
                return Err(Error::invalid_state(format!(
                    "the communicator has {size} of NVSHMEM's {} PEs; use one of all PEs first (make a plan, or \
                     boxwise_malloc device memory), so that boxwise can allocate symmetric memory",
                    world.pes
                )));
            }
            let entered = world.context.enter();
            vote(collective, &entered.as_ref().map(|_| true).map_err(Error::clone))?;
            let address = world.malloc(&entered?, POOL_BYTES).ok_or_else(|| no_memory(POOL_BYTES));
            vote(collective, &address.as_ref().map(|_| true).map_err(Error::clone))?;
            let pool = Pool::new(world, address?);
            POOL.get_or_init(|| pool);
        }
        let prepared = catch_panic(|| {
            let kernels = KERNELS.get_or_try_init(|| Kernels::load(world))?;
            let abort = Arc::new(HostWords::new(world.context, 1 + size)?);
            watch(Arc::downgrade(&self.0), Arc::downgrade(&abort))
                .map_err(|error| Error::os("cannot start a thread", &error))?;
            Ok((kernels, abort))
        });
        vote(collective, &prepared.as_ref().map(|_| true).map_err(Error::clone))?;
        let (kernels, abort) = prepared?;
        let pool = POOL.get().expect("all ranks have it");
        Ok(Device(Arc::new(Shared { world, pool, kernels, pes, abort })))
    }
}

/// Every rank's answer to a question, or the first fault on any.
fn vote(collective: &mut Collective<'_>, own: &Result<bool>) -> Result<Vec<bool>> {
    let verdict = own.as_ref().map(drop).map_err(Error::clone);
    let mut message = encode_verdict(&verdict).to_vec();
    message.push(own.as_ref().is_ok_and(|answer| *answer) as u8);
    let all = collective.exchange(&message)?;
    let (verdicts, answers): (Vec<&[u8]>, Vec<bool>) =
        all.chunks_exact(VERDICT_BYTES + 1).map(|one| (&one[..VERDICT_BYTES], one[VERDICT_BYTES] == 1)).unzip();
    agree(&verdicts.concat())?;
    Ok(answers)
}

/// That the symmetric heap has no room.
pub fn no_memory(bytes: usize) -> Error {
    Error::new(
        Status::OutOfMemory,
        format!("NVSHMEM has no {bytes} bytes of symmetric memory left; set NVSHMEM_SYMMETRIC_SIZE to more"),
    )
}

impl Device {
    pub(super) fn context(&self) -> Context {
        self.0.world.context
    }

    pub(super) fn world(&self) -> &'static World {
        self.0.world
    }

    /// From where offsets in the symmetric heap are counted; its pool.
    pub fn heap(&self) -> Range<u64> {
        self.0.pool.address..self.0.pool.address + POOL_BYTES as u64
    }

    /// The PE of a rank.
    pub fn pe_of(&self, rank: usize) -> i32 {
        self.0.pes[rank]
    }

    /// Where that of a rank is mapped here, if it is.
    pub fn mapped_heap(&self, rank: usize) -> Option<u64> {
        self.0.world.mapped(self.0.pool.address, self.0.pes[rank])
    }

    /// A zeroed piece of the pool.
    pub fn claim(&self, bytes: usize) -> Result<Claim> {
        self.0.pool.claim(bytes)
    }

    /// A few words for reports.
    pub fn host_words(&self) -> Result<HostWords> {
        HostWords::new(self.context(), 8)
    }

    /// Where kernels look whether ranks are lost: see `watch`.
    pub fn abort_word(&self) -> u64 {
        self.0.abort.device_address()
    }

    /// Queues a kernel on a stream.
    pub fn launch(
        &self,
        kernel: usize,
        blocks: u32,
        threads: u32,
        shared_bytes: u32,
        parameters: &mut [*mut c_void],
        stream: u64,
    ) -> Result<()> {
        let _entered = self.context().enter()?;
        // SAFETY: the parameters are those of the kernel, which are copied before this returns.
        check("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(
                self.0.kernels.function(kernel),
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared_bytes,
                stream as sys::CUstream,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    }

    /// Blocks of a kernel that the device runs at once.
    pub fn resident_blocks(&self, kernel: usize, threads: u32, shared_bytes: u32) -> u32 {
        let _entered = self.context().enter();
        self.0.kernels.resident_blocks(kernel, threads, shared_bytes)
    }

    /// Whether these bytes lie in the symmetric heap; `address` is what the caller passed as `what`.
    pub fn check_symmetric(&self, what: &str, address: u64, bytes: Range<u64>) -> Result<()> {
        let is_symmetric = |at: u64| self.0.world.mapped(at, self.0.world.pe).is_some();
        if is_symmetric(bytes.start) && is_symmetric(bytes.end - 1) {
            return Ok(());
        }
        let mut kind = 0u32;
        // SAFETY: the place is there to be written; the address is only looked up.
        let known = unsafe {
            sys::cuPointerGetAttribute(
                (&raw mut kind).cast(),
                sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                address,
            )
        };
        let is_device = known == sys::CUresult::CUDA_SUCCESS && kind == 2;
        let problem = match is_device {
            true => {
                "is device memory outside NVSHMEM's symmetric heap; allocate it with boxwise_malloc and \
                     BOXWISE_MEMORY_DEVICE, or nvshmem_malloc"
            }
            false => {
                "is host memory, but this plan runs on NVSHMEM; use device memory, or set BOXWISE_OPTION_BACKEND to \
                      BOXWISE_BACKEND_HOST before make"
            }
        };
        Err(Error::invalid_argument(format!("{what} {address:#x} {problem}")))
    }

    /// Whether a stream is one of the device's.
    pub fn check_stream(&self, stream: u64) -> Result<()> {
        self.context().check_stream(stream)
    }

    /// Waits for everything on the device.
    pub fn synchronize(&self) -> Result<()> {
        self.context().synchronize()
    }
}
