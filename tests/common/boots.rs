//! A boot table over threads and a barrier: communicators of any subset of a test's ranks.

use boxwise::{Boot, Result};
use std::sync::{Arc, Barrier, Mutex};

struct Meeting {
    barrier: Barrier,
    table: Mutex<Vec<Vec<u8>>>,
}

/// One member of a group of threads that can exchange bytes.
pub struct ThreadBoot {
    rank: usize,
    size: usize,
    meeting: Arc<Meeting>,
}

/// The members of a new group.
pub fn group(size: usize) -> Vec<ThreadBoot> {
    let meeting = Arc::new(Meeting { barrier: Barrier::new(size), table: Mutex::new(vec![Vec::new(); size]) });
    (0..size).map(|rank| ThreadBoot { rank, size, meeting: meeting.clone() }).collect()
}

impl Boot for ThreadBoot {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn allgather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        assert_eq!(all.len(), mine.len() * self.size, "the library asks for a whole table");
        self.meeting.table.lock().unwrap()[self.rank] = mine.to_vec();
        self.meeting.barrier.wait();
        all.copy_from_slice(&self.meeting.table.lock().unwrap().concat());
        self.meeting.barrier.wait();
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.meeting.barrier.wait();
        Ok(())
    }
}
