//! A made plan on this rank's GPU: tables in device memory, and the kernels that every execution launches.

use super::super::buffers::{Buffers, Expected};
use super::super::failure::Failure;
use super::super::{PUT, STORE};
use super::tables::{Blocks, Operands, Places, RankPlace, SLOT_BYTES, Tables};
use super::workspace::Layout;
use crate::error::{Error, Result, Status};
use crate::plan::Schedule;
use crate::transport::{Cause, Claim, Communicator, Device, DeviceMemory, HostWords, Range};
use bytemuck::Zeroable;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The words that the last kernel of an operation writes: how many have finished, and the first failure.
const FAILURE_WORD: usize = 1;
const LEGACY_STREAM: u64 = 0;

/// What a rank has of its own before it knows where the others' slots are.
pub struct Draft {
    device: Device,
    layout: Layout,
    slots: Claim,
}

/// One rank's made plan on its GPU.
pub struct DeviceProgram {
    communicator: Communicator,
    device: Device,
    expected: Expected,
    /// The tables in device memory.
    image: ManuallyDrop<DeviceMemory>,
    /// Where the peers signal to this rank.
    slots: ManuallyDrop<Claim>,
    /// Where the last kernel of an operation says how it ended.
    report: ManuallyDrop<HostWords>,
    launches: Vec<PreparedLaunch>,
    /// How data moves: bits of [`super::super::METHODS`].
    methods: u32,
    has_run: AtomicBool,
    /// Held while an operation is queued: the kernels of one come before those of the next.
    queueing: Mutex<()>,
}

/// A kernel with the size of its grid.
#[derive(Clone, Copy, Debug)]
struct PreparedLaunch {
    kernel: usize,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
}

impl Draft {
    /// Lays out the workspace and takes slots from the symmetric pool. Sets the size of the workspace in the schedule.
    pub fn new(device: &Device, schedule: &mut Schedule) -> Result<Draft> {
        let layout = Layout::new(schedule, |rank| device.mapped_heap(rank).is_some());
        schedule.set_workspace_bytes(layout.workspace_bytes);
        let slots = device.claim(schedule.size * SLOT_BYTES)?;
        Ok(Draft { device: device.clone(), layout, slots })
    }

    /// Where the slots are, in bytes from the start of the symmetric heap: the same number means them on all ranks.
    pub fn slots_offset(&self) -> u64 {
        self.slots.address() - self.device.heap().start
    }
}

impl DeviceProgram {
    /// Builds the tables and puts them on the device. `slots` are the offsets of the slots of every rank.
    pub fn new(communicator: &Communicator, schedule: &Schedule, draft: Draft, slots: &[u64]) -> Result<DeviceProgram> {
        let Draft { device, layout, slots: own_slots } = draft;
        let report = device.host_words()?;
        let rank_place =
            |(rank, &slots): (usize, &u64)| RankPlace { pe: device.pe_of(rank), heap: device.mapped_heap(rank), slots };
        let places = Places {
            rank: schedule.rank,
            heap: device.heap().start,
            own_slots: own_slots.address(),
            ranks: slots.iter().enumerate().map(rank_place).collect(),
            abort: device.abort_word(),
            report: report.device_address(),
            timeout_ns: schedule.options.timeout_ms.saturating_mul(1_000_000),
        };
        let tables = Tables::build(schedule, &layout, &places)?;
        let image = DeviceMemory::allocate(&device, tables.bytes())?;
        image.write(&tables.at(image.address()))?;
        let prepare = |launch: &super::tables::Launch| {
            let (kernel, threads, shared_bytes) = (launch.kernel as usize, launch.threads, launch.shared_bytes);
            let blocks = match launch.blocks {
                Blocks::One => 1,
                Blocks::AtMost(tiles) => tiles.min(device.resident_blocks(kernel, threads, shared_bytes)).max(1),
            };
            PreparedLaunch { kernel, blocks, threads, shared_bytes }
        };
        Ok(DeviceProgram {
            communicator: communicator.clone(),
            expected: Expected::new(schedule),
            launches: tables.launches().iter().map(prepare).collect(),
            methods: methods(schedule, &device),
            image: ManuallyDrop::new(image),
            slots: ManuallyDrop::new(own_slots),
            report: ManuallyDrop::new(report),
            device,
            has_run: AtomicBool::new(false),
            queueing: Mutex::new(()),
        })
    }

    /// How operations move data, once there was one.
    pub fn methods(&self) -> u32 {
        if self.has_run.load(Ordering::Relaxed) { self.methods } else { 0 }
    }

    /// Queues an operation on a CUDA stream. With `Err`, this rank's arguments are faulty: it takes part, so that the
    /// peers are told instead of left waiting, and the fault comes back. If all is well here, what comes back is the
    /// failure of an earlier operation that no call has returned yet.
    pub fn start(&self, buffers: Result<Buffers>, stream: u64) -> Result<()> {
        let _range = Range::begin(c"boxwise_exec_async");
        let _queueing = self.queueing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_health()?;
        let sound_stream = self.device.check_stream(stream).map_err(|error| self.of_this_rank(error));
        let stream = if sound_stream.is_ok() { stream } else { LEGACY_STREAM };
        let sound = sound_stream.and(buffers).and_then(|buffers| self.check(&buffers).map(|()| buffers));
        let operands = match &sound {
            Ok(buffers) => Operands {
                input: buffers.input.addr() as u64,
                output: buffers.output.addr() as u64,
                workspace: buffers.workspace.addr() as u64,
                ..Operands::zeroed()
            },
            Err(fault) => Operands { fault: fault.status as u32, ..Operands::zeroed() },
        };
        self.launch(operands, stream).inspect_err(|_| {
            // The peers may wait for kernels that will never run.
            self.communicator.0.give_up(Cause::Failed, self.communicator.rank());
        })?;
        sound?;
        self.has_run.store(true, Ordering::Relaxed);
        self.take_failure().map_or(Ok(()), Err)
    }

    /// Waits until everything queued on this device has ended; returns the failure that no call has returned yet.
    pub fn settle(&self) -> Result<()> {
        let ended = self.synchronize();
        self.take_failure().map_or(ended, Err)
    }

    /// Waits for the device. Peers that wait for one that has failed are told.
    fn synchronize(&self) -> Result<()> {
        self.device.synchronize().map_err(|error| self.of_this_rank(error)).inspect_err(|_| {
            self.communicator.0.give_up(Cause::Failed, self.communicator.rank());
        })
    }

    fn launch(&self, mut operands: Operands, stream: u64) -> Result<()> {
        let mut plan = self.image.address();
        let mut parameters = [(&raw mut plan).cast::<c_void>(), (&raw mut operands).cast()];
        self.launches.iter().try_for_each(|launch| {
            let PreparedLaunch { kernel, blocks, threads, shared_bytes } = *launch;
            self.device.launch(kernel, blocks, threads, shared_bytes, &mut parameters, stream)
        })
    }

    /// Whether an operation can still be queued: after a rank was lost, or waited for in vain, none moves anything.
    fn check_health(&self) -> Result<()> {
        match (self.failure(), self.communicator.0.broken()) {
            (Some(failure), _) if is_fatal(failure) => Err(self.take_failure().unwrap_or_else(|| failure.into())),
            (_, Some(broken)) => Err(broken),
            _ => Ok(()),
        }
    }

    fn check(&self, buffers: &Buffers) -> Result<()> {
        self.expected.check(buffers)?;
        let workspace = buffers.workspace.addr();
        let fields = [
            ("data_in", buffers.input.addr(), self.expected.input_bytes(buffers)),
            ("data_out", buffers.output.addr(), self.expected.output_bytes(buffers)),
            ("workspace", workspace, workspace..workspace.saturating_add(self.expected.workspace_bytes)),
        ];
        for (what, address, bytes) in fields {
            if !bytes.is_empty() {
                let bytes = bytes.start as u64..bytes.end as u64;
                self.device.check_symmetric(what, address as u64, bytes).map_err(|error| self.of_this_rank(error))?;
            }
        }
        Ok(())
    }

    fn of_this_rank(&self, error: Error) -> Error {
        error.context(format_args!("rank {}", self.communicator.rank()))
    }

    /// How an operation failed of which no call has told.
    fn failure(&self) -> Option<Failure> {
        let failure = Failure::reported(self.report.load(FAILURE_WORD))?;
        // The call with the faulty arguments has told of them.
        if failure.rank == self.communicator.rank() && !is_fatal(failure) {
            self.report.store(FAILURE_WORD, 0);
            return None;
        }
        Some(failure)
    }

    /// The same as an error, which is told from now on. The communicator is out of use if a wait was in vain.
    fn take_failure(&self) -> Option<Error> {
        let failure = self.failure()?;
        self.report.store(FAILURE_WORD, 0);
        let inner = &self.communicator.0;
        let own = self.communicator.rank();
        Some(match failure.status {
            Status::Timeout => {
                inner.give_up(Cause::TimedOut(failure.rank), own);
                let ms = "BOXWISE_OPTION_TIMEOUT_MS";
                let detail = format!("rank {own} waited longer than {ms} for rank {}", failure.rank);
                Error::new(Status::Timeout, detail)
            }
            // The kernels only know for whom they waited; the communicator may know more.
            Status::PeerLost => inner.broken().unwrap_or_else(|| inner.give_up(Cause::Died, failure.rank)),
            _ => failure.into(),
        })
    }
}

impl Drop for DeviceProgram {
    fn drop(&mut self) {
        // Kernels that still wait for lost peers are told to stop, so this ends.
        let ended = self.synchronize();
        if let Some(failure) = self.take_failure() {
            log::warn!("rank {}: an operation failed: {failure}", self.communicator.rank());
        }
        // SAFETY: this is the end of the program, which uses none of the three again.
        let (image, slots, report) = unsafe {
            (
                ManuallyDrop::take(&mut self.image),
                ManuallyDrop::take(&mut self.slots),
                ManuallyDrop::take(&mut self.report),
            )
        };
        match (ended, self.communicator.0.broken()) {
            (Ok(()), None) => {}
            // Peers that are not aware of it yet may still write to the slots.
            (Ok(()), Some(_)) => slots.forget(),
            // Nobody knows what the device still does: what it may touch is left to it.
            (Err(error), _) => {
                log::warn!("rank {}: {error}", self.communicator.rank());
                slots.forget();
                std::mem::forget((image, report));
            }
        }
    }
}

impl std::fmt::Debug for DeviceProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceProgram").field("launches", &self.launches).finish_non_exhaustive()
    }
}

/// Whether the ranks no longer agree on what has been moved. All else only failed one operation.
fn is_fatal(failure: Failure) -> bool {
    matches!(failure.status, Status::PeerLost | Status::Timeout)
}

/// How data moves between this rank and its peers.
fn methods(schedule: &Schedule, device: &Device) -> u32 {
    let method = |rank: usize| if device.mapped_heap(rank).is_some() { STORE } else { PUT };
    schedule.peers.iter().map(|peer| method(peer.rank)).fold(0, |all, one| all | one)
}
