//! The scheduler: which thread of which block goes on, and for how many instructions, as a seed has it.

use crate::block::Block;
use crate::fault::{Fault, Kind};
use crate::machine::Machine;
use crate::module::Placed;
use crate::thread::{Launched, Step};
use std::time::{Duration, Instant};

/// A launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Its name.
    pub kernel: &'a str,
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block along each axis.
    pub block: [u32; 3],
    /// Shared memory beside the kernel's own.
    pub dynamic_shared_bytes: u32,
    /// All parameters, laid out as the kernel has them.
    pub parameters: &'a [u8],
}

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Of the order in which threads go on.
    pub seed: u64,
    /// With more instructions than this, and more time, the kernel is stopped.
    pub step_limit: u64,
    /// See `step_limit`.
    pub time_limit: Duration,
    /// Blocks that have begun at once, at most; the others begin as these end.
    pub resident_blocks: usize,
}

/// What a launch took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions of all threads.
    pub steps: u64,
}

/// Instructions between two switches, at most.
const LONGEST_TURN: u64 = 48;
/// Turns between two looks at the clock.
const TURNS_A_LOOK: u64 = 1024;
/// So long does a launch sleep in which all threads wait for something outside.
const NAP: Duration = Duration::from_micros(50);

const MOST_THREADS: u64 = 1024;
const MOST_SHARED_BYTES: usize = 227 << 10;

/// Runs a kernel to its end.
pub fn run(placed: &Placed, launch: &Launch, machine: &dyn Machine, settings: &Settings) -> Result<Statistics, Fault> {
    let name = launch.kernel;
    let refused = |what: String| Err(Fault::new(Kind::Launch, format!("kernel {name}: {what}")));
    let Some(kernel) = placed.module().kernel(name) else { return refused("is not in the module".into()) };
    let threads = launch.block.iter().map(|count| *count as u64).product::<u64>();
    if threads == 0 || threads > kernel.max_threads.map_or(MOST_THREADS, u64::from) {
        return refused(format!("{threads} threads in a block"));
    }
    if launch.grid.contains(&0) {
        return refused(format!("a grid of {:?} blocks", launch.grid));
    }
    if launch.parameters.len() != kernel.parameter_bytes {
        return refused(format!(
            "{} bytes of parameters instead of {}",
            launch.parameters.len(),
            kernel.parameter_bytes
        ));
    }
    let own = kernel.static_shared_bytes.next_multiple_of(16);
    let shared_bytes = own + launch.dynamic_shared_bytes as usize;
    if shared_bytes > MOST_SHARED_BYTES {
        return refused(format!("{shared_bytes} bytes of shared memory"));
    }
    let dynamic_shared = (own, launch.dynamic_shared_bytes as usize);
    let launched = Launched { placed, machine, grid: launch.grid, block: launch.block, dynamic_shared };
    let begin = |index: u64| {
        let [x, y, _] = launch.grid.map(u64::from);
        let index = [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32];
        Block::new(&launched, kernel.function as u32, index, shared_bytes, launch.parameters)
    };
    Scheduler { launched: &launched, settings, dice: settings.seed, steps: 0 }
        .run(launch.grid.iter().map(|count| *count as u64).product(), begin)
        .map_err(|fault| Fault::new(fault.kind, format!("kernel {name}: {}", fault.text)))
}

struct Scheduler<'a> {
    launched: &'a Launched<'a>,
    settings: &'a Settings,
    dice: u64,
    steps: u64,
}

impl Scheduler<'_> {
    /// A number below `count`.
    fn roll(&mut self, count: u64) -> u64 {
        // Steele, Lea and Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.dice;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % count
    }

    fn run(mut self, count: u64, begin: impl Fn(u64) -> Block) -> Result<Statistics, Fault> {
        let started = Instant::now();
        let mut next = count.min(self.settings.resident_blocks.max(1) as u64);
        let mut blocks: Vec<Block> = (0..next).map(&begin).collect();
        // Turns, and waits among them, since something happened that others may wait for.
        let (mut turns, mut waits) = (0u64, 0u64);
        while !blocks.is_empty() {
            let chosen = self.roll(blocks.len() as u64) as usize;
            let ready: usize = blocks[chosen].ready.len();
            match self.turn(&mut blocks[chosen])? {
                Step::Waits => waits += 1,
                Step::Silent => {}
                _ => waits = 0,
            }
            if waits > 64 + 4 * (ready * blocks.len()) as u64 {
                std::thread::sleep(NAP);
            }
            if blocks[chosen].is_done() {
                blocks.swap_remove(chosen);
                if next < count {
                    blocks.push(begin(next));
                    next += 1;
                }
            }
            turns += 1;
            if turns % TURNS_A_LOOK == 0 && self.steps > self.settings.step_limit {
                let elapsed = started.elapsed();
                if elapsed > self.settings.time_limit {
                    let what = format!("stopped after {} instructions and {elapsed:.1?}", self.steps);
                    return Err(Fault::new(Kind::Timeout, what));
                }
            }
        }
        Ok(Statistics { steps: self.steps })
    }

    /// Lets one thread of a block go on for a while.
    fn turn(&mut self, block: &mut Block) -> Result<Step, Fault> {
        if block.ready.is_empty() {
            return Ok(if block.ask(self.launched)? { Step::Seen } else { Step::Waits });
        }
        let place = self.roll(block.ready.len() as u64) as usize;
        let most = 1 + self.roll(LONGEST_TURN);
        block.run(self.launched, place, most, &mut self.steps)
    }
}
