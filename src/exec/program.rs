//! A made plan, ready to run: kernels for every transfer, the segment shared with the peers, and the order of turns.

use super::buffers::{Buffers, Expected};
#[cfg(feature = "cuda")]
use super::device::DriverPointers;
use super::direction::Direction;
use super::failure::Failure;
use super::outcome::Everyone;
use super::peer::{Flows, PeerCopies, Step, kept_piece_bytes};
use super::remote::{RemoteCopies, RemoteFlow, RemoteStep};
use super::stream::{Job, Stream};
use super::team::Team;
use crate::copy::Kernel;
use crate::error::{Error, Result, Status, catch_panic};
use crate::geometry::{LoopNest, Placement};
use crate::plan::{ExitSync, Schedule};
use crate::transport::{Cause, Communicator, Operation, Patience, PlanSegment, PlanTags, Post, Reach, Tally, patience};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// One rank's made plan.
#[derive(Debug)]
pub struct Program {
    pub(super) communicator: Communicator,
    pub(super) segment: PlanSegment,
    /// Those of this node.
    pub(super) peers: Vec<PeerCopies>,
    /// Those of other nodes.
    pub(super) remotes: Vec<RemoteCopies>,
    /// What stays on this rank.
    pub(super) keep: Direction,
    pub(super) exit_sync: ExitSync,
    /// Whether it can run on the thread of a stream: not every runtime lets that send messages.
    may_stream: bool,
    pub(super) bytes_in_all: usize,
    pub(super) team: Team,
    expected: Expected,
    /// Asked whether buffers are memory of a GPU, where this process uses one.
    #[cfg(feature = "cuda")]
    driver: Option<DriverPointers>,
    staging: Option<Kernel>,
    pub(super) patience: Patience,
    /// The last operation that was given out.
    given: AtomicU32,
    /// The operation whose turn it is, and what operations reuse.
    turn: Mutex<Turn>,
    turn_changed: Condvar,
    methods: AtomicU32,
    /// Given back last: until then messages with them may be under way.
    _tags: Option<PlanTags>,
}

#[derive(Debug)]
struct Turn {
    operation: Operation,
    busy: bool,
    /// Threads that wait for their turn: waking nobody would still be a system call.
    waiting: usize,
    state: State,
}

/// What one operation after the other uses.
#[derive(Debug, Default)]
struct State {
    flows: Vec<Flows>,
    remote_flows: Vec<RemoteFlow>,
    /// Where every rank learns how the operation ended on all, if some are on other nodes.
    tally: Option<Tally>,
}

impl Program {
    /// Chooses a kernel for every transfer of the schedule.
    pub fn new(
        communicator: &Communicator,
        schedule: &Schedule,
        segment: PlanSegment,
        tags: Option<PlanTags>,
    ) -> Result<Program> {
        let received: usize = schedule.peers.iter().flat_map(|peer| &peer.receive).map(|t| t.nest.bytes()).sum();
        let bytes_in_all = received + schedule.keep.iter().map(|t| t.nest.bytes()).sum::<usize>();
        let kernel = |nest: &LoopNest| Kernel::new(*nest, bytes_in_all);
        let piece_bytes = segment.piece_bytes();
        let (mut peers, mut remotes) = (Vec::new(), Vec::new());
        for peer in &schedule.peers {
            match communicator.0.node.member_of(peer.rank) {
                Some(member) => peers.push(PeerCopies::new(peer, member, piece_bytes, kernel)),
                None => remotes.push(RemoteCopies::new(peer, communicator.size(), kernel)),
            }
        }
        let mut state = State { flows: vec![Default::default(); peers.len()], ..State::default() };
        if let Some(tags) = &tags {
            let flows = remotes.iter().map(|remote| remote.lay_lane(communicator, tags));
            state.remote_flows = flows.collect::<Result<_>>()?;
            state.tally = Some(Tally::new(communicator, tags.outcomes()));
        }
        // Peers read the workspace, which the next operation fills again.
        let exit_sync = match schedule.options.in_place {
            true => schedule.options.exit_sync.max(ExitSync::Input),
            false => schedule.options.exit_sync,
        };
        let sends = !remotes.is_empty() || exit_sync == ExitSync::Everyone;
        let may_stream = communicator.0.wire.as_ref().is_none_or(|wire| !sends || wire.messages().any_thread());
        Ok(Program {
            communicator: communicator.clone(),
            segment,
            peers,
            remotes,
            keep: Direction::new(&schedule.keep, kept_piece_bytes(schedule.options.threads), kernel),
            exit_sync,
            may_stream,
            bytes_in_all,
            team: Team::new(schedule.options.threads)?,
            expected: Expected::new(schedule),
            #[cfg(feature = "cuda")]
            driver: DriverPointers::find(),
            staging: schedule.staging.as_ref().map(kernel),
            patience: patience(schedule.options.timeout_ms),
            given: AtomicU32::new(0),
            turn: Mutex::new(Turn { operation: 1, busy: false, waiting: 0, state }),
            turn_changed: Condvar::new(),
            methods: AtomicU32::new(0),
            _tags: tags,
        })
    }

    /// How the last operation moved data: a mask of the bits of [`super::METHODS`].
    pub fn methods(&self) -> u32 {
        self.methods.load(Ordering::Relaxed)
    }

    /// Takes the next turn and runs the operation, or queues it. With `Err`, this rank's arguments are faulty:
    /// the peers are told, and the fault comes back.
    pub fn start(self: &Arc<Self>, buffers: Result<Buffers>, stream: Option<&Stream>) -> Result<()> {
        let buffers = buffers.and_then(|buffers| self.check(&buffers).map(|()| buffers));
        let (buffers, stream) = match stream {
            Some(_) if !self.may_stream => (buffers.and(Err(self.needs_any_thread())), None),
            _ => (buffers, stream),
        };
        let operation = self.given.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match stream {
            None => self.run(operation, buffers),
            Some(stream) => {
                let told = buffers.as_ref().map(drop).map_err(Error::clone);
                stream.push(Job { program: Arc::clone(self), operation, buffers });
                told
            }
        }
    }

    fn check(&self, buffers: &Buffers) -> Result<()> {
        self.expected.check(buffers)?;
        #[cfg(feature = "cuda")]
        if let Some(driver) = &self.driver {
            let fields = [
                ("data_in", buffers.input.addr(), self.expected.input_bytes(buffers)),
                ("data_out", buffers.output.addr(), self.expected.output_bytes(buffers)),
                ("workspace", buffers.workspace.addr(), 0..self.expected.workspace_bytes),
            ];
            let on_device = |(_, address, bytes): &(_, usize, std::ops::Range<usize>)| {
                !bytes.is_empty() && driver.is_device_only(*address)
            };
            if let Some((what, address, _)) = fields.into_iter().find(on_device) {
                return Err(self.expected.wrong(format!(
                    "{what} {address:#x} is memory of a GPU, but this plan runs on the host; set \
                     BOXWISE_OPTION_BACKEND to BOXWISE_BACKEND_NVSHMEM before make"
                )));
            }
        }
        Ok(())
    }

    fn needs_any_thread(&self) -> Error {
        Error::new(
            Status::NotSupported,
            format!(
                "rank {}: a stream's own thread cannot send to other nodes here; initialise MPI with \
                 MPI_THREAD_MULTIPLE (a boot table: any_thread = 1), or pass stream NULL",
                self.communicator.rank()
            ),
        )
    }

    /// Runs an operation when its turn has come: operations of a handle run in the order in which they were started.
    pub(super) fn run(&self, operation: Operation, buffers: Result<Buffers>) -> Result<()> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while turn.operation != operation || turn.busy {
            turn.waiting += 1;
            turn = self.turn_changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
            turn.waiting -= 1;
        }
        turn.busy = true;
        let mut state = std::mem::take(&mut turn.state);
        drop(turn);
        // A panic is a bug of ours; it must not leave the peers, or the next operation, waiting.
        let result = catch_panic(|| self.execute(operation, &buffers, &mut state)).inspect_err(|error| {
            if matches!(error.status, Status::Internal | Status::Transport) {
                self.communicator.0.give_up(Cause::Failed, self.communicator.rank());
            }
        });
        if self.communicator.0.broken().is_some() {
            self.withdraw(operation);
            self.tell_remotes();
            // No message may touch the buffers any more.
            state.remote_flows.iter_mut().for_each(RemoteFlow::abandon);
        }
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (turn.busy, turn.state) = (false, state);
        turn.operation = operation.wrapping_add(1);
        let waiting = turn.waiting;
        drop(turn);
        if waiting > 0 {
            self.turn_changed.notify_all();
        }
        match (result, buffers) {
            // This rank's own fault says more than that it had one.
            (Err(error), Err(own)) if error.status == own.status => Err(own),
            (result, buffers) => result.and(buffers.map(drop)),
        }
    }

    fn execute(&self, operation: Operation, buffers: &Result<Buffers>, state: &mut State) -> Result<()> {
        let inner = &*self.communicator.0;
        if let Some(error) = inner.broken() {
            return Err(error);
        }
        let own = inner.node.member;
        let (slot, bell) = (self.segment.slot(own), self.segment.bell(own));
        // The post before last is overwritten: everyone must have read it.
        let before_last = operation.wrapping_sub(2);
        let peers = self.peers.iter().map(|peer| (peer.rank, peer.member));
        let mut earlier = Everyone::new(peers, |member| self.segment.slot(member).is_done(before_last));
        inner.wait(bell, self.patience, &mut earlier)?;

        let post = match buffers {
            Ok(buffers) => self.prepare(buffers),
            Err(error) => {
                let nowhere = Reach { segment: 0, address: 0 };
                Post { fault: error.status as i32, source: nowhere, target: nowhere }
            }
        };
        slot.post(operation, &post);
        let State { flows, remote_flows, tally, .. } = state;
        let buffers_or_status = buffers.as_ref().copied().map_err(|error| error.status);
        let mut remote = RemoteStep::start(self, buffers_or_status, remote_flows)?;
        let failure = match buffers {
            Ok(buffers) => {
                self.ring_peers();
                flows.fill(Default::default());
                let mut step = Step::new(self, operation, post, *buffers, flows, remote);
                inner.wait(bell, self.patience, &mut step)?;
                self.methods.store(step.methods(), Ordering::Relaxed);
                // A rank that has given up may have used its memory for something else while this one read it.
                if let Some(error) = inner.broken() {
                    return Err(error);
                }
                step.failure()
            }
            Err(error) => {
                slot.set_done(operation);
                self.ring_peers();
                inner.wait(bell, self.patience, &mut remote)?;
                Some(Failure { rank: inner.rank, status: error.status })
            }
        };
        match (self.exit_sync, failure) {
            (ExitSync::Everyone, _) => self.wait_for_everyone(operation, failure, tally.as_mut()),
            (_, Some(failure)) => Err(failure.into()),
            (_, None) => Ok(()),
        }
    }

    /// Tells those of other nodes who may wait for this rank that the communicator is broken.
    fn tell_remotes(&self) {
        let Communicator(inner) = &self.communicator;
        if let Some(wire) = &inner.wire {
            wire.spread(inner.node.control.cause(), self.remotes.iter().map(|peer| peer.rank));
        }
    }

    /// After a failure: nobody may start to use this rank's buffers any more, and it waits for the ranks of
    /// this process that are using them. Either such a rank sees that the post is withdrawn, or this one sees that it
    /// has posted, and it sets done when it leaves. Other processes can do no harm: what they use, they have mapped.
    fn withdraw(&self, operation: Operation) {
        let node = &self.communicator.0.node;
        let slot = self.segment.slot(node.member);
        if !slot.has_posted(operation) {
            return;
        }
        slot.withdraw(operation, Status::PeerLost as i32);
        slot.set_done(operation);
        self.ring_peers();
        for peer in self.peers.iter().filter(|peer| node.is_same_process(peer.member)) {
            let slot = self.segment.slot(peer.member);
            while slot.has_posted(operation) && !slot.is_done(operation) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Stages the input where that is needed, and says where the buffers lie.
    fn prepare(&self, buffers: &Buffers) -> Post {
        let segments = &self.communicator.0.segments;
        let reach = |placement: &Placement, address: usize| {
            let range = placement.byte_range();
            let bytes = address.wrapping_add_signed(range.start)..address.wrapping_add_signed(range.end);
            segments.reach(bytes, address)
        };
        let source = match &self.staging {
            None => reach(&self.expected.input, buffers.input.expose_provenance()),
            Some(staging) => {
                // SAFETY: the check saw that the workspace is there and apart; the caller vouches for its length.
                unsafe { self.team.run(staging, self.bytes_in_all, buffers.workspace, buffers.input) };
                let start = buffers.workspace.expose_provenance();
                segments.reach(start..start.saturating_add(self.expected.workspace_bytes), start)
            }
        };
        Post { fault: 0, source, target: reach(&self.expected.output, buffers.output.expose_provenance()) }
    }

    /// Where this rank reads what it sends to itself.
    pub(super) fn own_source(&self, buffers: &Buffers) -> *const u8 {
        if self.staging.is_some() { buffers.workspace } else { buffers.input }
    }

    pub(super) fn ring_peers(&self) {
        self.ring(self.peers.iter().map(|peer| peer.member));
    }

    pub(super) fn ring(&self, members: impl Iterator<Item = usize>) {
        members.for_each(|member| self.segment.bell(member).ring());
    }
}
