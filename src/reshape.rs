//! The life of one operation: made once by all ranks together, then executed any number of times.

use crate::error::{Error, Result, Status, agree, catch_panic, encode_verdict};
use crate::exec::{Buffers, METHODS, Program, Stream};
use crate::plan::{
    Backend, DESCRIPTOR_BYTES, Descriptor, Format, Info, Options, Request, Schedule, check_own, check_table, describe,
};
use crate::transport::{Call, Communicator, PlanSegment, PlanTags, patience};
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
    program: Arc<Program>,
    schedule: Schedule,
}

impl Reshape {
    /// Plans the movement. Collective: every rank returns, and all with the same status. With `Err`, this rank's
    /// own arguments are faulty: it takes part so that nobody waits for it, and all ranks return the fault.
    pub fn make(communicator: &Communicator, request: Result<Request>, options: &Options) -> Result<Reshape> {
        let rank = communicator.rank();
        let description = request.and_then(|request| match options.backend {
            Backend::Auto | Backend::Host => Ok(request),
            Backend::Nvshmem => Err(Error::new(
                Status::NotSupported,
                "BOXWISE_BACKEND_NVSHMEM is not in this build; use BOXWISE_BACKEND_HOST or _AUTO",
            )),
        });
        let node = communicator.0.node.ranks[0] as u64;
        let own = Descriptor { rank, node, description, options: *options };
        let mut collective = communicator.0.collective(Call::Make, patience(options.timeout_ms));
        let wire = collective.exchange(&own.encode())?;
        let table = wire.chunks(DESCRIPTOR_BYTES).map(Descriptor::decode).collect::<Result<Vec<_>>>()?;
        check_table(&table)?;
        let request = own.description.expect("a faulty description ends in check_table");

        // A bug of ours is this rank's verdict: the others must not wait for it.
        let made = catch_panic(|| check_own(&table, rank).map(|()| Schedule::build(&table, rank)));
        let tags = collective.agree_on_tags()?.map(|tag| PlanTags::new(communicator, tag));
        let near = communicator.0.node.ranks.len();
        let bytes = PlanSegment::bytes(near)
            .ok_or_else(|| Error::new(Status::OutOfMemory, format!("rings for {near} ranks on one node")));
        let mapping = collective.share(c"boxwise-plan", bytes);
        let made = made.and_then(|schedule| {
            let segment = PlanSegment::new(mapping?, near);
            let program = catch_panic(|| Program::new(communicator, &request, &schedule, segment, tags))?;
            Ok(Reshape { program: Arc::new(program), schedule })
        });
        let verdict = made.as_ref().map(drop).map_err(Error::clone);
        agree(&collective.exchange(&encode_verdict(&verdict))?)?;
        made
    }

    /// Bytes of workspace that an execution needs on this rank.
    pub fn workspace_bytes(&self) -> usize {
        self.program.workspace_bytes()
    }

    /// Moves the data, before it returns or queued on a stream. Collective; allocates nothing. Operations of one
    /// reshape run in the order in which they were started, whatever streams they are on.
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
        self.program.start(Ok(Buffers { output, input, workspace }), stream)
    }

    /// Takes part in an execution as a rank whose arguments are faulty: its peers return the status of the fault
    /// instead of waiting, and the handle stays usable.
    pub fn exec_fault(&self, fault: Error) -> Error {
        self.program.start(Err(fault.clone()), None).err().unwrap_or(fault)
    }

    /// What moves on this rank.
    pub fn info(&self) -> &Info {
        &self.schedule.info
    }

    /// How the last execution moved data between ranks: bit 0 directly in shared memory, bit 1 through rings,
    /// bit 2 by cross-memory attach, bit 3 in messages to and from other nodes.
    pub fn methods(&self) -> u32 {
        self.program.methods()
    }

    /// A report of the plan, for people or programs.
    pub fn describe(&self, format: Format) -> String {
        let used = METHODS.iter().filter(|(bit, _)| self.methods() & bit != 0).map(|(_, name)| *name);
        let used: Vec<_> = used.collect();
        let methods = if used.is_empty() { "not executed yet, or nothing to move".into() } else { used.join(", ") };
        describe(&self.schedule, &methods, format)
    }
}

const _: () = assert!(DESCRIPTOR_BYTES <= crate::transport::EXCHANGE_BYTES);
