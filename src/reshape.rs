//! The life of one operation: made once by all ranks together, then executed any number of times.

use crate::error::{Error, Result, Status, agree, catch_panic, encode_verdict};
use crate::exec::{Buffers, METHODS, Program, Stream};
#[cfg(feature = "cuda")]
use crate::exec::{DeviceProgram, Draft};
use crate::plan::{
    Backend, DESCRIPTOR_BYTES, Descriptor, Format, Info, Movement, Options, Request, Schedule, check_own, check_table,
    describe,
};
use crate::transport::{Call, Collective, Communicator, PlanSegment, PlanTags, patience};
#[cfg(feature = "cuda")]
use crate::transport::{Device, Range, Wanted};
use std::sync::Arc;

/// A made reshape: moves a distributed array from the input boxes of all ranks to their output boxes.
///
/// ```
/// use boxwise::{Communicator, Request, Reshape, geometry::{IndexBox, Placement}, plan::Options};
///
/// # fn main() -> boxwise::Result<()> {
/// let world = Communicator::world()?;
/// let whole = IndexBox::new(&[0, 0], &[2, 3]).unwrap();
/// let rows = Placement::input(whole, None, 8).unwrap();
/// let columns = Placement::output(whole, Some(&[1, 2]), 8).unwrap();
/// let request = Request::new(rows, columns);
/// let reshape = Reshape::make(&world, request, &Options::default())?;
/// let input = [0u64, 1, 2, 3, 4, 5];
/// let mut output = [0u64; 6];
/// // SAFETY: both arrays hold the whole box, and nothing else uses them.
/// unsafe { reshape.exec(output.as_mut_ptr().cast(), input.as_ptr().cast(), std::ptr::null_mut(), None)? };
/// assert_eq!(output, [0, 3, 1, 4, 2, 5]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reshape {
    executor: Executor,
    schedule: Schedule,
}

/// What runs the schedule.
#[derive(Debug)]
enum Executor {
    Host(Arc<Program>),
    #[cfg(feature = "cuda")]
    Device(Box<DeviceProgram>),
}

impl Reshape {
    /// Plans the movement. Collective: every rank returns, and all with the same status. With `Err`, this rank's
    /// own arguments are faulty: it takes part so that nobody waits for it, and all ranks return the fault.
    pub fn make(communicator: &Communicator, request: Result<Request>, options: &Options) -> Result<Reshape> {
        let rank = communicator.rank();
        let description = request.and_then(|request| backend_is_built(options.backend).map(|()| request));
        let node = communicator.0.node.ranks[0] as u64;
        let own = Descriptor { rank, node, description, options: *options };
        let mut collective = communicator.0.collective(Call::Make, patience(options.timeout_ms));
        let wire = collective.exchange(&own.encode())?;
        let table = wire.chunks(DESCRIPTOR_BYTES).map(Descriptor::decode).collect::<Result<Vec<_>>>()?;
        check_table(&table)?;

        #[cfg(feature = "cuda")]
        let device = find_device(communicator, &mut collective, options.backend)?;
        // A bug of ours is this rank's verdict: the others must not wait for it.
        let schedule = catch_panic(|| check_own(&table, rank).map(|()| Schedule::build(&table, rank)));
        #[cfg(feature = "cuda")]
        let made = match device {
            Some(device) => Reshape::on_device(communicator, &mut collective, schedule, &device)?,
            None => Reshape::on_host(communicator, &mut collective, schedule)?,
        };
        #[cfg(not(feature = "cuda"))]
        let made = Reshape::on_host(communicator, &mut collective, schedule)?;
        let verdict = made.as_ref().map(drop).map_err(Error::clone);
        agree(&collective.exchange(&encode_verdict(&verdict))?)?;
        made
    }

    /// The second half of make, for the host. Collective; the inner result is this rank's verdict.
    fn on_host(
        communicator: &Communicator,
        collective: &mut Collective<'_>,
        schedule: Result<Schedule>,
    ) -> Result<Result<Reshape>> {
        let tags = collective.agree_on_tags()?.map(|tag| PlanTags::new(communicator, tag));
        let near = communicator.0.node.ranks.len();
        let bytes = PlanSegment::bytes(near)
            .ok_or_else(|| Error::new(Status::OutOfMemory, format!("rings for {near} ranks on one node")));
        let mapping = collective.share(c"boxwise-plan", bytes);
        Ok(schedule.and_then(|schedule| {
            let segment = PlanSegment::new(mapping?, near);
            let program = catch_panic(|| Program::new(communicator, &schedule, segment, tags))?;
            Ok(Reshape { executor: Executor::Host(Arc::new(program)), schedule })
        }))
    }

    /// The same for GPUs.
    #[cfg(feature = "cuda")]
    fn on_device(
        communicator: &Communicator,
        collective: &mut Collective<'_>,
        schedule: Result<Schedule>,
        device: &Device,
    ) -> Result<Result<Reshape>> {
        let _range = Range::begin(c"boxwise_make");
        let drafted = schedule.and_then(|mut schedule| {
            let draft = catch_panic(|| Draft::new(device, &mut schedule))?;
            Ok((schedule, draft))
        });
        // Whoever has none will say so in its verdict.
        let own_slots = drafted.as_ref().map_or(0, |(_, draft)| draft.slots_offset());
        let slots = collective.exchange(&own_slots.to_ne_bytes())?;
        let slots = slots.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")));
        let slots: Vec<u64> = slots.collect();
        Ok(drafted.and_then(|(schedule, draft)| {
            let program = catch_panic(|| DeviceProgram::new(communicator, &schedule, draft, &slots))?;
            Ok(Reshape { executor: Executor::Device(Box::new(program)), schedule })
        }))
    }

    /// Bytes of workspace that an execution needs on this rank.
    pub fn workspace_bytes(&self) -> usize {
        self.schedule.workspace_bytes
    }

    /// Who moves the data: the host or NVSHMEM, never [`Backend::Auto`].
    pub fn backend(&self) -> Backend {
        match self.executor {
            Executor::Host(_) => Backend::Host,
            #[cfg(feature = "cuda")]
            Executor::Device(_) => Backend::Nvshmem,
        }
    }

    /// Moves the data, before it returns or queued on a stream. Collective; allocates nothing. Operations of one
    /// reshape run in the order in which they were started, whatever streams they are on. On the NVSHMEM backend it is
    /// queued on the default stream, and a host stream is an error.
    ///
    /// # Safety
    /// `input` and `output` are the places of the first elements of this rank's boxes, valid for all their elements
    /// (ignored where the box is empty), and `workspace` is valid for [`Reshape::workspace_bytes`] bytes. Until
    /// the operation is complete nobody else writes the input or touches output and workspace.
    pub unsafe fn exec(
        &self,
        output: *mut u8,
        input: *const u8,
        workspace: *mut u8,
        stream: Option<&Stream>,
    ) -> Result<()> {
        let buffers = Buffers { output, input, workspace };
        match &self.executor {
            Executor::Host(program) => program.start(Ok(buffers), stream),
            #[cfg(feature = "cuda")]
            Executor::Device(program) => program.start(self.no_host_stream(stream).map(|()| buffers), 0),
        }
    }

    /// Queues the movement of the data on a CUDA stream, 0 for the default one; the handle is what `cudaStream_t` and
    /// `CUstream` are. Collective; allocates nothing and waits for nothing. What fails in the operation itself is
    /// returned by the next call, which does its own part all the same, or by [`Reshape::settle`]. Only on the NVSHMEM
    /// backend: on the host the fault is told to the peers.
    ///
    /// # Safety
    /// As [`Reshape::exec`], and the stream must exist.
    #[cfg(feature = "cuda")]
    pub unsafe fn exec_on_cuda_stream(
        &self,
        output: *mut u8,
        input: *const u8,
        workspace: *mut u8,
        stream: *mut std::ffi::c_void,
    ) -> Result<()> {
        match &self.executor {
            Executor::Host(_) => Err(self.exec_fault(Error::invalid_argument(format!(
                "rank {}: stream is a CUDA stream, but this plan runs on the host; set BOXWISE_OPTION_BACKEND",
                self.schedule.rank
            )))),
            Executor::Device(program) => {
                program.start(Ok(Buffers { output, input, workspace }), stream.expose_provenance() as u64)
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn no_host_stream(&self, stream: Option<&Stream>) -> Result<()> {
        match stream {
            None => Ok(()),
            Some(_) => Err(Error::invalid_argument(format!(
                "rank {}: stream is a host stream, but this plan runs on NVSHMEM; pass a CUDA stream, or set \
                 BOXWISE_OPTION_BACKEND to BOXWISE_BACKEND_HOST before make",
                self.schedule.rank
            ))),
        }
    }

    /// Takes part in an execution as a rank whose arguments are faulty: its peers return the status of the fault
    /// instead of waiting, and the handle stays usable.
    pub fn exec_fault(&self, fault: Error) -> Error {
        let started = match &self.executor {
            Executor::Host(program) => program.start(Err(fault.clone()), None),
            #[cfg(feature = "cuda")]
            Executor::Device(program) => program.start(Err(fault.clone()), 0),
        };
        started.err().unwrap_or(fault)
    }

    /// On the NVSHMEM backend waits until everything queued on the device has ended, and returns the first failure
    /// that no call has returned yet. On the host it does nothing: [`Stream::synchronize`] tells.
    pub fn settle(&self) -> Result<()> {
        match &self.executor {
            Executor::Host(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Executor::Device(program) => program.settle(),
        }
    }

    /// What moves on this rank.
    pub fn info(&self) -> &Info {
        &self.schedule.info
    }

    /// How the last execution moved data between ranks: bit 0 directly in shared memory, bit 1 through rings,
    /// bit 2 by cross-memory attach, bit 3 in messages to and from other nodes, bit 4 by stores of kernels to the
    /// memory of other GPUs, bit 5 by NVSHMEM puts.
    pub fn methods(&self) -> u32 {
        match &self.executor {
            Executor::Host(program) => program.methods(),
            #[cfg(feature = "cuda")]
            Executor::Device(program) => program.methods(),
        }
    }

    /// A report of the plan, for people or programs.
    pub fn describe(&self, format: Format) -> String {
        let used = METHODS.iter().filter(|(bit, _)| self.methods() & bit != 0).map(|(_, name)| *name);
        let used: Vec<_> = used.collect();
        let methods = if used.is_empty() { "not executed yet, or nothing to move".into() } else { used.join(", ") };
        describe(&self.schedule, Movement { backend: self.backend(), methods: &methods }, format)
    }
}

/// Whether this build has the backend at all; what the machine has is found out later, by all ranks together.
fn backend_is_built(backend: Backend) -> Result<()> {
    match backend {
        Backend::Nvshmem if !cfg!(feature = "cuda") => Err(Error::new(
            Status::NotSupported,
            "BOXWISE_BACKEND_NVSHMEM is not in this build; use BOXWISE_BACKEND_HOST or _AUTO",
        )),
        Backend::Auto | Backend::Host | Backend::Nvshmem => Ok(()),
    }
}

/// The GPU, if that is where the data lives. Collective: all ranks find the same, for their options agree.
#[cfg(feature = "cuda")]
fn find_device(
    communicator: &Communicator,
    collective: &mut Collective<'_>,
    backend: Backend,
) -> Result<Option<Device>> {
    match backend {
        Backend::Host => Ok(None),
        Backend::Auto => communicator.device(collective, Wanted::IfInitialised),
        Backend::Nvshmem => communicator.device(collective, Wanted::Always),
    }
}

const _: () = assert!(DESCRIPTOR_BYTES <= crate::transport::EXCHANGE_BYTES);
