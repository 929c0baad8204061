//! The job board: `boxwise-run` notes on it which ranks have ended, so that a rank which waits for the others to
//! appear learns that one never will.

use crate::config;
use crate::error::Result;
use crate::transport::memory;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// One byte per rank, 1 when it has ended; in memory of the launcher, which the ranks read through `/proc`.
#[derive(Debug)]
pub struct JobBoard(File);

impl JobBoard {
    /// Launcher: a board for `size` ranks.
    pub fn create(size: usize) -> Result<JobBoard> {
        let fd: OwnedFd = memory::create(c"boxwise-board", size)?;
        Ok(JobBoard(File::from(fd)))
    }

    /// Launcher: the variables that a rank needs to find the others, and their values. `job` is the job's name.
    pub fn variables(&self, job: &str, rank: usize) -> io::Result<[(&'static str, String); 4]> {
        let board = format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd());
        let size = self.0.metadata()?.len();
        Ok([
            (config::RANK.name, rank.to_string()),
            (config::SIZE.name, size.to_string()),
            (config::JOB.name, job.to_string()),
            (config::BOARD.name, board),
        ])
    }

    /// Launcher: notes that a rank has ended.
    pub fn note_end(&self, rank: usize) -> io::Result<()> {
        self.0.write_all_at(&[1], rank as u64)
    }

    /// Rank: the board of this job, where there is one.
    pub(super) fn find() -> Option<JobBoard> {
        config::BOARD.get().and_then(|path| File::open(path).ok()).map(JobBoard)
    }

    /// Rank: whether that rank has ended.
    pub(super) fn has_ended(&self, rank: usize) -> bool {
        let mut ended = [0];
        self.0.read_exact_at(&mut ended, rank as u64).is_ok() && ended[0] != 0
    }
}
