//! A boot table over files: communicators of any subset of the processes of a job.

use boxwise::{Boot, Result};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait for another member.
const LIMIT: Duration = Duration::from_secs(60);

/// One member of a group of processes that can exchange bytes in a directory.
pub struct FileBoot {
    rank: usize,
    size: usize,
    directory: PathBuf,
    exchanges: Cell<usize>,
}

impl FileBoot {
    /// `group` names the group in the directory, which all members share.
    pub fn new(directory: &Path, group: &str, rank: usize, size: usize) -> FileBoot {
        let directory = directory.join(group);
        std::fs::create_dir_all(&directory).expect("a directory for the group");
        FileBoot { rank, size, directory, exchanges: Cell::new(0) }
    }

    /// Everybody's bytes, by rank. Collective.
    pub fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        let exchange = self.exchanges.replace(self.exchanges.get() + 1);
        let path = |rank: usize| self.directory.join(format!("{exchange}-{rank}"));
        let unfinished = self.directory.join(format!("unfinished-{}", self.rank));
        // Renamed, so that nobody sees a part of it.
        std::fs::write(&unfinished, mine).expect("a file can be written");
        std::fs::rename(&unfinished, path(self.rank)).expect("a file can be renamed");
        let begun = Instant::now();
        let read = |rank| loop {
            match std::fs::read(path(rank)) {
                Ok(bytes) => return bytes,
                Err(_) => assert!(begun.elapsed() < LIMIT, "member {rank} does not come"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        (0..self.size).map(read).collect()
    }
}

impl Boot for FileBoot {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn allgather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        all.copy_from_slice(&self.gather(mine).concat());
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.gather(&[]);
        Ok(())
    }
}
