//! Starts the ranks of a job on this node: `boxwise-run -n N program args…`.
//!
//! Prints nothing of its own, forwards signals, and returns the first exit code that is not 0.

use boxwise::JobBoard;
use lexopt::prelude::*;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};

const USAGE: &str = "usage: boxwise-run -n N program [argument...]

starts N ranks of a program on this node, which find each other by boxwise's implicit world
(BOXWISE_COMM_NONE), forwards signals to them, and returns the first exit code that is not 0
(128 + the number of the signal for a rank that a signal ended)

-n N, -np N, --ranks N   the number of ranks
-h, --help               this text
-V, --version            the version of boxwise";

type AnyError = Box<dyn std::error::Error + Send + Sync>;

struct Arguments {
    size: usize,
    program: OsString,
    arguments: Vec<OsString>,
}

fn parse() -> Result<Option<Arguments>, AnyError> {
    let mut parser = lexopt::Parser::from_env();
    let mut size = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Short('n') | Long("ranks") => {
                // `-np N`, as other launchers have it, is read as -n with the value p.
                let attached = parser.optional_value().filter(|value| value != "p");
                let value = attached.map_or_else(|| parser.value(), Ok)?;
                size = Some(value.parse::<usize>().map_err(|error| format!("-n: {error}"))?);
            }
            Short('h') | Long("help") => return Ok(None),
            Short('V') | Long("version") => {
                println!("boxwise-run {}", env!("CARGO_PKG_VERSION"));
                std::process::exit(0);
            }
            Value(program) => {
                let size = size.ok_or("-n N comes before the program")?;
                if size == 0 || size > i32::MAX as usize {
                    return Err(format!("-n {size}: the number of ranks must be at least 1").into());
                }
                let arguments = parser.raw_args()?.collect();
                return Ok(Some(Arguments { size, program, arguments }));
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Err("no program given".into())
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("boxwise-run: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("boxwise-run: {error}");
            ExitCode::from(127)
        }
    }
}

fn run(arguments: &Arguments) -> Result<u8, AnyError> {
    // Before the first child, so that no signal is missed.
    let mut signals = Signals::new([SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
    let board = JobBoard::create(arguments.size)?;
    let job = format!("run-{}-{:x}", std::process::id(), start_nanos());
    let mut ranks: Vec<Option<Child>> = Vec::new();
    for rank in 0..arguments.size {
        match start(arguments, &board, &job, rank) {
            Ok(child) => ranks.push(Some(child)),
            Err(error) => {
                for mut child in ranks.into_iter().flatten() {
                    // It may have ended by itself.
                    let _ = child.kill();
                    let _ = child.wait();
                }
                return Err(format!("cannot start {}: {error}", arguments.program.to_string_lossy()).into());
            }
        }
    }
    let mut code = 0;
    while ranks.iter().any(Option::is_some) {
        for signal in signals.wait() {
            if signal != SIGCHLD {
                ranks.iter().flatten().for_each(|child| forward(child, signal));
            }
        }
        for (rank, place) in ranks.iter_mut().enumerate() {
            let Some(status) = place.as_mut().map_or(Ok(None), Child::try_wait)? else { continue };
            *place = None;
            board.note_end(rank)?;
            if code == 0 {
                code = exit_code(status);
            }
        }
    }
    Ok(code)
}

fn start(arguments: &Arguments, board: &JobBoard, job: &str, rank: usize) -> std::io::Result<Child> {
    let mut command = Command::new(&arguments.program);
    command.args(&arguments.arguments).envs(board.variables(job, rank)?);
    let launcher = std::process::id();
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe {
        command.pre_exec(move || {
            // A launcher that is killed outright takes its ranks along.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if std::os::unix::process::parent_id() == launcher { Ok(()) } else { Err(std::io::ErrorKind::Other.into()) }
        });
    }
    command.spawn()
}

fn forward(child: &Child, signal: i32) {
    // SAFETY: plain system call. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    code as u8
}

/// Tells this job from an earlier one of a launcher with the same process number.
fn start_nanos() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos())
}
