//! The connections along which a communicator hands out shared memory: from rank 0, the hub, to every other rank.

use super::board::JobBoard;
use super::socket::{Listener, Packet, Socket};
use super::wait::LOOK;
use crate::config;
use crate::error::{Error, Result, Status, encode_verdict, read_fault};
use bytemuck::{Pod, Zeroable};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// One rank's connections.
#[derive(Debug)]
pub enum Star {
    /// Rank 0: one connection to each other rank, that of rank `r` at `r - 1`.
    Hub(Vec<Socket>),
    /// Any other rank: the connection to rank 0.
    Spoke(Socket),
}

/// How a rank introduces itself to the hub, and the hub's answer to all that have come.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
struct Hello {
    /// Also the version of everything that ranks share in memory.
    magic: u64,
    rank: u32,
    size: u32,
}

const MAGIC: u64 = u64::from_le_bytes(*b"boxwise1");

impl Star {
    /// Connects the ranks that know the same name: rank 0 takes it, the others look for it.
    pub fn meet(name: &str, rank: usize, size: usize, board: Option<&JobBoard>) -> Result<Star> {
        let meeting = Meeting {
            rank,
            size,
            name: format!("boxwise.{}.{name}", super::socket::own_user()),
            deadline: Instant::now() + config::boot_timeout()?,
            board,
        };
        if rank == 0 { meeting.gather() } else { meeting.join() }
    }

    /// The connections of ranks that are threads of this process, by rank.
    pub fn in_process(size: usize) -> Result<Vec<Star>> {
        let pairs = (1..size).map(|_| Socket::pair()).collect::<Result<Vec<_>>>()?;
        let (hub, spokes): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        Ok(std::iter::once(Star::Hub(hub)).chain(spokes.into_iter().map(Star::Spoke)).collect())
    }

    /// Whether the connection to that rank, where there is one, has ended.
    pub fn has_hung_up(&self, rank: usize) -> bool {
        match self {
            Star::Hub(spokes) => rank > 0 && spokes.get(rank - 1).is_some_and(Socket::has_hung_up),
            Star::Spoke(hub) => rank == 0 && hub.has_hung_up(),
        }
    }

    /// The hub gives everyone the descriptor, or the reason why there is none.
    pub fn give(&self, fd: &Result<OwnedFd>) -> Result<()> {
        let Star::Hub(spokes) = self else { unreachable!("only the hub gives") };
        for spoke in spokes {
            // A rank that is gone is noticed by those who wait for it.
            match fd {
                Ok(fd) => spoke.send(&encode_verdict(&Ok(())), Some(fd))?,
                Err(error) => refuse(spoke, error)?,
            };
        }
        Ok(())
    }

    /// A spoke takes what the hub gives; the inner error is the reason why there is none. After an outer one the
    /// connection is of no more use. `give_up` is asked now and then whether to stop waiting.
    pub fn take(&self, mut give_up: impl FnMut() -> Result<()>) -> Result<Result<OwnedFd>> {
        let Star::Spoke(hub) = self else { unreachable!("only spokes take") };
        loop {
            match hub.receive(LOOK)? {
                Some(Packet { fd: Some(fd), .. }) => return Ok(Ok(fd)),
                Some(Packet { lost_fd: true, .. }) => {
                    let what = "cannot receive shared memory: this process has too many open files";
                    return Ok(Err(Error::new(Status::Transport, what)));
                }
                Some(Packet { bytes, .. }) if bytes.is_empty() => {
                    return Err(Error::new(Status::PeerLost, "rank 0 closed its connection"));
                }
                Some(Packet { bytes, .. }) => return Ok(Err(refusal(&bytes))),
                None => give_up()?,
            }
        }
    }
}

/// Tells the other end why there is nothing for it.
fn refuse(socket: &Socket, error: &Error) -> Result<bool> {
    socket.send(&encode_verdict(&Err(error.clone())), None)
}

/// What a packet without a descriptor means.
fn refusal(bytes: &[u8]) -> Error {
    read_fault(bytes).unwrap_or_else(|| Error::new(Status::Internal, "rank 0 gave nothing"))
}

struct Meeting<'a> {
    rank: usize,
    size: usize,
    name: String,
    deadline: Instant,
    board: Option<&'a JobBoard>,
}

impl Meeting<'_> {
    fn gather(&self) -> Result<Star> {
        let mut spokes: Vec<Option<Socket>> = (1..self.size).map(|_| None).collect();
        if let Err(error) = self.fill(&mut spokes) {
            for socket in spokes.iter().flatten() {
                // Whoever cannot be told sees the connection end.
                let _ = refuse(socket, &error);
            }
            return Err(error);
        }
        Ok(Star::Hub(spokes.into_iter().flatten().collect()))
    }

    fn fill(&self, spokes: &mut [Option<Socket>]) -> Result<()> {
        let listener = loop {
            match Listener::bind(&self.name)? {
                Some(listener) => break listener,
                // An earlier program of the same job may still be meeting under this name.
                None => self.check(&[0], "the job's socket name is in use by another process")?,
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        while spokes.iter().any(Option::is_none) {
            let Some(socket) = listener.accept(LOOK)? else {
                let absent = spokes.iter().enumerate().filter(|(_, spoke)| spoke.is_none());
                self.check(&absent.map(|(i, _)| i + 1).collect::<Vec<_>>(), "not all ranks have appeared")?;
                continue;
            };
            match self.welcome(&socket)? {
                Some(rank) if spokes[rank - 1].is_none() => spokes[rank - 1] = Some(socket),
                Some(rank) => {
                    let error = Error::new(Status::Inconsistent, format!("two processes are rank {rank}"));
                    refuse(&socket, &error)?;
                    return Err(error);
                }
                None => log::warn!("turned away a process that is not a rank of this job"),
            }
        }
        Ok(())
    }

    /// The rank of a process that belongs here, `None` for one that does not speak as we do.
    fn welcome(&self, socket: &Socket) -> Result<Option<usize>> {
        let Some(packet) = socket.receive(Duration::from_secs(1))? else { return Ok(None) };
        let Ok(hello) = bytemuck::try_pod_read_unaligned::<Hello>(&packet.bytes) else { return Ok(None) };
        let (rank, size) = (hello.rank as usize, hello.size as usize);
        let fault = if hello.magic != MAGIC {
            "the ranks use different versions of boxwise".to_string()
        } else if size != self.size {
            format!("rank {rank} was told of {size} ranks, rank 0 of {}", self.size)
        } else if !(1..size).contains(&rank) {
            format!("a process says that it is rank {rank} of {size}")
        } else {
            return Ok(Some(rank));
        };
        let error = Error::new(Status::Inconsistent, fault);
        refuse(socket, &error)?;
        Err(error)
    }

    fn join(&self) -> Result<Star> {
        let socket = loop {
            match Socket::connect(&self.name)? {
                Some(socket) => break socket,
                None => self.check(&[0], "rank 0 has not appeared")?,
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let hello = Hello { magic: MAGIC, rank: self.rank as u32, size: self.size as u32 };
        socket.send(bytemuck::bytes_of(&hello), None)?;
        Ok(Star::Spoke(socket))
    }

    /// Whether there is still hope for the ranks that are missing.
    fn check(&self, missing: &[usize], what: &str) -> Result<()> {
        let ended = missing.iter().find(|&&rank| self.board.is_some_and(|board| board.has_ended(rank)));
        if let Some(rank) = ended {
            return Err(Error::new(Status::PeerLost, format!("rank {rank} ended before it joined the others")));
        }
        if Instant::now() < self.deadline {
            return Ok(());
        }
        let shown = &missing[..missing.len().min(8)];
        Err(Error::new(
            Status::Timeout,
            format!(
                "{what}: rank {} of {} waited for ranks {shown:?}; every rank must call boxwise, \
                 {} sets how long to wait",
                self.rank,
                self.size,
                config::BOOT_TIMEOUT_MS.name
            ),
        ))
    }
}
