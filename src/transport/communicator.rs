//! A communicator: ranks that share a control segment, exchange small messages and hand out shared memory.

use super::board::JobBoard;
use super::boot::Boot;
use super::control::{Call, Cause, Control, EXCHANGE_BYTES};
use super::liveness::Watch;
use super::memory::{self, Mapping};
use super::segments::Segments;
use super::star::Star;
use super::sync::Ordering;
use super::wait::{Patience, Pending, Progress, timed_out};
use super::{cross_memory, launch};
use crate::config;
use crate::error::{Error, Result, Status};
use bytemuck::{Pod, Zeroable};
use once_cell::sync::OnceCell;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Ranks that move data among themselves. Clones are the same communicator.
#[derive(Clone, Debug)]
pub struct Communicator(pub(crate) Arc<Inner>);

/// What the clones of a communicator share.
#[derive(Debug)]
pub struct Inner {
    pub rank: usize,
    pub size: usize,
    pub control: Control,
    /// Whether the kernel lets every rank read its peers' plain memory.
    pub cross_memory: bool,
    /// How often to look before sleeping.
    pub spins: u32,
    pub segments: Segments,
    /// The other ranks' processes; `None` where the rank is a thread of this one.
    watches: Vec<Option<Arc<Watch>>>,
    star: Star,
    /// The process that formed it: a forked child has a copy, but is not a rank.
    process: u32,
    /// The number of exchanges so far. Locked for the whole of a collective call.
    collective: Mutex<u32>,
}

/// A collective call in progress: calls of several threads on one communicator come one after the other.
pub struct Collective<'a> {
    inner: &'a Inner,
    exchanges: MutexGuard<'a, u32>,
    call: Call,
    patience: Patience,
}

impl Communicator {
    /// The world that the launcher of this process made, formed once; a process without a launcher is a world of one.
    pub fn world() -> Result<Communicator> {
        static WORLD: OnceCell<Communicator> = OnceCell::new();
        WORLD
            .get_or_try_init(|| match launch::find_job(config::get, launch::launcher_process())? {
                None => Communicator::form(Star::Hub(Vec::new()), 0, 1),
                Some(job) => {
                    let star = Star::meet(&job.name, job.rank, job.size, JobBoard::find().as_ref())?;
                    Communicator::form(star, job.rank, job.size)
                }
            })
            .cloned()
    }

    /// A communicator of `size` ranks that are threads of this process: give one to each.
    pub fn threads(size: usize) -> Result<Vec<Communicator>> {
        if size == 0 {
            return Err(Error::invalid_argument("a communicator of 0 ranks"));
        }
        let segment = memory::create(c"boxwise-control", Control::bytes(size))?;
        let ranks = Star::in_process(size)?.into_iter().enumerate();
        ranks
            .map(|(rank, star)| {
                let control = Control::new(Mapping::new(&segment, Control::bytes(size))?, size);
                let watches = (0..size).map(|_| None).collect();
                Ok(Communicator(Arc::new(Inner::new(rank, size, control, watches, true, star))))
            })
            .collect()
    }

    /// A communicator formed with the calls of another runtime. Collective over the ranks of the table; all must be
    /// on this node. The table is not used any more afterwards.
    pub fn from_boot(boot: Box<dyn Boot>) -> Result<Communicator> {
        let (rank, size) = (boot.rank(), boot.size());
        if size == 0 || rank >= size {
            return Err(Error::invalid_argument(format!("rank {rank} of {size} in the boot table")));
        }
        // A rank that cannot introduce itself takes part all the same: the others are in the allgather.
        let own = Introduction::own();
        let mine = own.clone().unwrap_or(Introduction::zeroed());
        let mut all = vec![Introduction::zeroed(); size];
        boot.allgather(bytemuck::bytes_of(&mine), bytemuck::cast_slice_mut(&mut all))?;
        if all[rank] != mine {
            return Err(Error::new(Status::Transport, "the boot table's allgather did not return what rank put in"));
        }
        own?;
        if let Some(silent) = all.iter().position(|other| *other == Introduction::zeroed()) {
            return Err(Error::new(Status::Transport, format!("rank {silent} cannot introduce itself")));
        }
        if let Some(other) = all.iter().position(|other| other.machine != all[0].machine) {
            return Err(Error::new(
                Status::NotSupported,
                format!("ranks 0 and {other} are on different nodes, which this version does not connect"),
            ));
        }
        if let Some(other) = all.iter().position(|other| other.user != all[0].user) {
            return Err(Error::new(
                Status::Inconsistent,
                format!("ranks 0 and {other} run as users {} and {}", all[0].user, all[other].user),
            ));
        }
        let star = Star::meet(&format!("{:032x}", u128::from_ne_bytes(all[0].token)), rank, size, None)?;
        let communicator = Communicator::form(star, rank, size)?;
        boot.barrier()?;
        Ok(communicator)
    }

    /// Shares the control segment and gets to know the other processes.
    fn form(star: Star, rank: usize, size: usize) -> Result<Communicator> {
        let (patience, started) = (config::boot_timeout()?, Instant::now());
        let bytes = Control::bytes(size);
        let segment = match &star {
            Star::Hub(_) => {
                let created = memory::create(c"boxwise-control", bytes);
                star.give(&created)?;
                created?
            }
            Star::Spoke(_) => star.take(|| match started.elapsed() < patience {
                true => Ok(()),
                false => Err(timed_out(rank, &[0])),
            })??,
        };
        let control = Control::new(Mapping::new(&segment, bytes)?, size);
        let member = control.member(rank);
        member.pid.store(std::process::id(), Ordering::Relaxed);
        member.probe_address.store(cross_memory::probe_address(), Ordering::Relaxed);
        let mut inner = Inner::new(rank, size, control, Vec::new(), false, star);
        // Until processes are watched, a connection that ends tells rank 0 and the others of a lost rank.
        inner.collective(Call::Form, Some(patience)).exchange(&[])?;
        inner.watches = inner.watch_others()?;
        let reads_others = inner.probe_next();
        // Whoever takes part still lived when the others opened their watches, or is seen to have gone by rank 0.
        let votes = inner.collective(Call::Form, Some(patience)).exchange(&[reads_others as u8])?;
        inner.cross_memory = votes.iter().all(|vote| *vote != 0);
        let how = if inner.cross_memory { "works" } else { "is not used" };
        log::info!("rank {rank} of a communicator of {size}; cross-memory attach {how}");
        Ok(Communicator(Arc::new(inner)))
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Returns after every rank has called it. Collective.
    pub fn barrier(&self) -> Result<()> {
        self.0.collective(Call::Barrier, None).exchange(&[]).map(drop)
    }
}

impl Inner {
    fn new(
        rank: usize,
        size: usize,
        control: Control,
        watches: Vec<Option<Arc<Watch>>>,
        cross_memory: bool,
        star: Star,
    ) -> Inner {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        // With a core for everyone a peer answers within microseconds; without, spinning only keeps it waiting.
        let spins = if size <= cores { 4000 } else { 50 };
        Inner {
            rank,
            size,
            control,
            cross_memory,
            spins,
            segments: Segments::default(),
            watches,
            star,
            process: std::process::id(),
            collective: Mutex::new(0),
        }
    }

    /// Begins a collective call.
    pub fn collective(&self, call: Call, patience: Patience) -> Collective<'_> {
        let exchanges = self.collective.lock().unwrap_or_else(PoisonError::into_inner);
        Collective { inner: self, exchanges, call, patience }
    }

    /// Whether that rank is a thread of this process.
    pub fn is_same_process(&self, rank: usize) -> bool {
        rank == self.rank || self.watches[rank].is_none()
    }

    /// That rank's process.
    pub fn pid(&self, rank: usize) -> u32 {
        self.watches[rank].as_ref().map_or_else(std::process::id, |watch| watch.pid())
    }

    /// Whether that rank's process has ended.
    pub fn has_died(&self, rank: usize) -> bool {
        let has_ended = self.watches.get(rank).and_then(Option::as_ref).is_some_and(|watch| watch.has_ended());
        has_ended || self.star.has_hung_up(rank)
    }

    /// Why nothing more can be expected of that rank, if so.
    pub fn is_lost(&self, rank: usize) -> Option<Cause> {
        if self.control.member(rank).left.load(Ordering::Acquire) != 0 {
            return Some(Cause::Left);
        }
        self.has_died(rank).then_some(Cause::Died)
    }

    fn watch_others(&self) -> Result<Vec<Option<Arc<Watch>>>> {
        let own = std::process::id();
        let pids = self.control.members().map(|member| member.pid.load(Ordering::Relaxed));
        pids.map(|pid| if pid == own { Ok(None) } else { Watch::on(pid).map(Some) }).collect()
    }

    /// Whether this rank can read the plain memory of the next rank that is another process.
    fn probe_next(&self) -> bool {
        if config::CMA.get().is_some_and(|value| value == "0") {
            return false;
        }
        let mut others = (1..self.size).map(|step| (self.rank + step) % self.size);
        others.find(|&rank| !self.is_same_process(rank)).is_none_or(|rank| {
            cross_memory::probe(self.pid(rank), self.control.member(rank).probe_address.load(Ordering::Relaxed))
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        self.control.member(self.rank).left.store(1, Ordering::Release);
        for member in self.control.members() {
            member.bell.ring();
        }
    }
}

impl Collective<'_> {
    /// Every rank's bytes, one after the other: at most [`EXCHANGE_BYTES`] each, and equally many on all ranks.
    pub fn exchange(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        assert!(mine.len() <= EXCHANGE_BYTES, "{} bytes in one exchange", mine.len());
        let Inner { rank, size, control, .. } = self.inner;
        if let Some(error) = control.broken() {
            return Err(error);
        }
        *self.exchanges = self.exchanges.wrapping_add(1);
        let exchange = *self.exchanges;
        control.member(*rank).contribute(exchange, self.call, mine);
        (1..*size).for_each(|step| control.member((rank + step) % size).bell.ring());
        let mut arrivals = Arrivals { control, size: *size, exchange, first: 0 };
        self.inner.wait(&control.member(*rank).bell, self.patience, &mut arrivals)?;
        let first = control.member(0).call(exchange);
        if let Some(other) = control.members().position(|member| member.call(exchange) != first) {
            return Err(Error::invalid_state(format!(
                "ranks 0 and {other} are in different collective calls on this communicator; all ranks must make the \
                 same calls in the same order"
            )));
        }
        let mut all = vec![0; mine.len() * size];
        if !mine.is_empty() {
            let members = control.members().zip(all.chunks_mut(mine.len()));
            members.for_each(|(member, bytes)| member.contribution(exchange, bytes));
        }
        Ok(all)
    }

    /// Memory that all ranks map: rank 0 creates it. The ranks must exchange afterwards whether all have it.
    pub fn share(&mut self, name: &CStr, bytes: Result<usize>) -> Result<Mapping> {
        let inner = self.inner;
        let segment = match &inner.star {
            Star::Hub(_) => {
                let created = bytes.clone().and_then(|bytes| memory::create(name, bytes));
                // Whoever gets nothing at all would wait for it.
                inner.star.give(&created).inspect_err(|_| drop(inner.give_up(Cause::Failed, inner.rank)))?;
                created?
            }
            Star::Spoke(_) => {
                let started = Instant::now();
                let give_up = || match (inner.control.broken(), inner.is_lost(0)) {
                    (Some(error), _) => Err(error),
                    (None, Some(cause)) => Err(inner.give_up(cause, 0)),
                    (None, None) if self.patience.is_some_and(|patience| started.elapsed() >= patience) => {
                        inner.give_up(Cause::TimedOut(0), inner.rank);
                        Err(timed_out(inner.rank, &[0]))
                    }
                    (None, None) => Ok(()),
                };
                let taken = inner.star.take(give_up).map_err(|error| match error.status {
                    Status::PeerLost => inner.give_up(Cause::Died, 0),
                    Status::Timeout => error,
                    // Whatever rank 0 gives now would be taken for the next.
                    _ => {
                        inner.give_up(Cause::Failed, inner.rank);
                        error
                    }
                });
                taken??
            }
        };
        Mapping::new(&segment, bytes?)
    }
}

impl Drop for Collective<'_> {
    fn drop(&mut self) {
        // A bug of ours must not leave the others waiting.
        if std::thread::panicking() {
            self.inner.give_up(Cause::Failed, self.inner.rank);
        }
    }
}

/// The contributions to one exchange that are still missing.
struct Arrivals<'a> {
    control: &'a Control,
    size: usize,
    exchange: u32,
    /// All ranks below this one have arrived.
    first: usize,
}

impl Pending for Arrivals<'_> {
    fn progress(&mut self) -> Result<Progress> {
        while self.first < self.size && self.control.member(self.first).has_arrived(self.exchange) {
            self.first += 1;
        }
        Ok(if self.first == self.size { Progress::Finished } else { Progress::Idle })
    }

    fn awaited(&self, visit: &mut dyn FnMut(usize)) {
        (self.first..self.size).filter(|&rank| !self.control.member(rank).has_arrived(self.exchange)).for_each(visit);
    }
}

/// What ranks tell each other through a boot table before they share anything.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
struct Introduction {
    /// The running kernel: equal on ranks of one node only.
    machine: [u8; 64],
    user: u64,
    /// A name that nobody else can guess; rank 0's is used.
    token: [u8; 16],
}

impl Introduction {
    fn own() -> Result<Introduction> {
        let mut mine = Introduction { user: super::socket::own_user().into(), ..Introduction::zeroed() };
        let path = "/proc/sys/kernel/random/boot_id";
        let boot_id = std::fs::read(path).map_err(|error| Error::os(format!("cannot read {path}"), &error))?;
        let length = boot_id.len().min(mine.machine.len());
        mine.machine[..length].copy_from_slice(&boot_id[..length]);
        // SAFETY: the buffer is as long as said.
        if unsafe { libc::getrandom(mine.token.as_mut_ptr().cast(), mine.token.len(), 0) } != 16 {
            return Err(Error::os("no random bytes", &std::io::Error::last_os_error()));
        }
        Ok(mine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    /// Two ranks, each on a thread.
    fn pair<T: Send>(
        first: impl FnOnce(&Communicator) -> T + Send,
        second: impl FnOnce(&Communicator) -> T + Send,
    ) -> [T; 2] {
        let [a, b] = <[_; 2]>::try_from(Communicator::threads(2).unwrap()).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(move || second(&b));
            let first = first(&a);
            [first, second.join().unwrap()]
        })
    }

    #[test]
    fn different_calls_that_meet_are_told_and_can_go_on() {
        let after = |communicator: &Communicator, told: Error| {
            assert_eq!(told.status, Status::InvalidState, "{told}");
            communicator.barrier()
        };
        let results = pair(|c| after(c, c.barrier().unwrap_err()), |c| after(c, c.malloc(Ok(8)).unwrap_err()));
        assert_eq!(results, [Ok(()), Ok(())]);
    }

    #[test]
    fn a_panic_inside_a_collective_call_leaves_nobody_waiting() {
        let panicking = |c: &Communicator| {
            let call = || {
                let _collective = c.0.collective(Call::Barrier, None);
                panic!("on purpose");
            };
            assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
            c.barrier()
        };
        let told = pair(|c| c.barrier(), panicking).map(|result| result.unwrap_err());
        assert!(
            told.iter().all(|error| error.status == Status::PeerLost && error.detail.contains("rank 1")),
            "{told:?}"
        );
    }

    #[test]
    fn a_rank_that_leaves_is_missed_only_by_those_who_wait_for_it() {
        assert_eq!(pair(Communicator::barrier, Communicator::barrier), [Ok(()), Ok(())]);
        let mut ranks = Communicator::threads(2).unwrap();
        drop(ranks.pop());
        let error = ranks[0].barrier().unwrap_err();
        assert_eq!(error.status, Status::PeerLost);
        assert!(error.detail.contains("rank 1 has destroyed its communicator"), "{error}");
    }
}
