//! The implicit world under other launchers: their variables form one world of this node, or none at all.

mod common;

use boxwise::plan::Options;
use boxwise::{Communicator, Reshape};
use common::example::slabs;
use common::harness::{self, Test};
use common::job::{self, Job};
use common::side::request;
use std::process::ExitCode;
use std::time::Duration;

/// Variables as a launcher sets them; `{rank}` is put in by the test.
type Variables = &'static [(&'static str, &'static str)];

/// Launchers of three ranks on this node.
const JOBS: [(&str, Variables); 7] = [
    (
        "open_mpi",
        &[
            ("OMPI_COMM_WORLD_RANK", "{rank}"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
            ("PMIX_NAMESPACE", "{job}"),
        ],
    ),
    (
        "open_mpi_without_a_name",
        &[("OMPI_COMM_WORLD_RANK", "{rank}"), ("OMPI_COMM_WORLD_SIZE", "3"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "3")],
    ),
    ("pmi", &[("PMI_RANK", "{rank}"), ("PMI_SIZE", "3"), ("MPI_LOCALNRANKS", "3")]),
    (
        "pmi_under_slurm",
        &[
            ("PMI_RANK", "{rank}"),
            ("PMI_SIZE", "3"),
            ("SLURM_STEP_NUM_NODES", "1"),
            ("SLURM_JOB_ID", "{job}"),
            ("SLURM_STEP_ID", "4"),
        ],
    ),
    (
        "slurm",
        &[
            ("SLURM_PROCID", "{rank}"),
            ("SLURM_STEP_NUM_TASKS", "3"),
            ("SLURM_STEP_NUM_NODES", "1"),
            ("SLURM_JOB_ID", "{job}"),
            ("SLURM_STEP_ID", "0"),
        ],
    ),
    // The variables of the batch script's own step are there, too: the inner launcher counts.
    (
        "open_mpi_inside_slurm",
        &[
            ("OMPI_COMM_WORLD_RANK", "{rank}"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
            ("PMIX_NAMESPACE", "{job}"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "1"),
            ("SLURM_STEP_NUM_NODES", "1"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_ID", "0"),
        ],
    ),
    ("boxwise_run_by_hand", &[("BOXWISE_RANK", "{rank}"), ("BOXWISE_SIZE", "3"), ("BOXWISE_JOB", "{job}")]),
];

/// Parallel jobs that cannot be one world of this node.
const NO_WORLDS: [(&str, Variables); 16] = [
    (
        "open_mpi_on_two_nodes",
        &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")],
    ),
    ("open_mpi_without_local_size", &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")]),
    ("open_mpi_rank_only", &[("OMPI_COMM_WORLD_RANK", "1")]),
    ("open_mpi_size_only", &[("OMPI_COMM_WORLD_SIZE", "2")]),
    ("open_mpi_rank_beyond_size", &[("OMPI_COMM_WORLD_RANK", "5"), ("OMPI_COMM_WORLD_SIZE", "4")]),
    ("open_mpi_not_numbers", &[("OMPI_COMM_WORLD_RANK", "first"), ("OMPI_COMM_WORLD_SIZE", "many")]),
    ("pmi_on_two_nodes", &[("PMI_RANK", "0"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "2")]),
    ("pmi_without_local_size", &[("PMI_RANK", "0"), ("PMI_SIZE", "4")]),
    ("pmi_rank_only", &[("PMI_RANK", "0")]),
    (
        "pmi_under_slurm_on_two_nodes",
        &[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("SLURM_STEP_NUM_NODES", "2"), ("SLURM_JOB_ID", "1")],
    ),
    (
        "slurm_on_two_nodes",
        &[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_STEP_NUM_NODES", "2"), ("SLURM_JOB_ID", "1")],
    ),
    ("slurm_without_nodes", &[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")]),
    ("slurm_tasks_only", &[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_STEP_NUM_NODES", "1")]),
    // Rank 0 alone may be a batch script; any other rank is one of several.
    ("slurm_rank_only", &[("SLURM_PROCID", "1")]),
    ("boxwise_rank_only", &[("BOXWISE_RANK", "0")]),
    ("boxwise_without_a_job", &[("BOXWISE_RANK", "0"), ("BOXWISE_SIZE", "2")]),
];

fn main() -> ExitCode {
    match job::role() {
        None => harness::run(tests()),
        Some(_) => work(),
    }
}

fn tests() -> Vec<Test<'static>> {
    let mut tests = Vec::new();
    for (name, variables) in JOBS {
        tests.push(Test::new(format!("one_world_{name}"), move || one_world(variables)));
    }
    for (name, variables) in NO_WORLDS {
        tests.push(Test::new(format!("no_world_{name}"), move || no_world(variables)));
    }
    tests.push(Test::new("a_world_of_one_without_a_launcher", || alone(&[])));
    tests.push(Test::new("a_world_of_one_as_a_job_of_one", || {
        alone(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "1")])?;
        alone(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")])?;
        alone(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_STEP_NUM_NODES", "1")])
    }));
    tests.push(Test::new("two_jobs_at_once_stay_apart", two_jobs));
    tests.push(Test::new("a_rank_twice_or_another_size_is_refused", quarrel));
    tests.push(Test::new("programs_of_one_job_after_each_other", one_after_the_other));
    tests
}

/// What a process of a job does: note what it finds, and move something through it.
fn work() -> ExitCode {
    let place: usize = std::env::var("TEST_PLACE").expect("set by the test").parse().expect("a number");
    let comm = match Communicator::world() {
        Ok(comm) => comm,
        Err(error) => {
            job::note(place, &format!("refused {:?} {}", error.status, error.detail));
            return ExitCode::SUCCESS;
        }
    };
    let (rank, ranks) = (comm.rank(), comm.size());
    let (input, output) = (&slabs(&[6, 6], 0, ranks)[rank], &slabs(&[6, 6], 1, ranks)[rank]);
    let reshape = Reshape::make(&comm, request(input, output, 8), &Options::default()).expect("make");
    let mut held = vec![0u64; 36];
    input.for_each(|point, place| held[place as usize] = (point[0] * 6 + point[1]) as u64);
    let mut got = vec![0u64; 36];
    // SAFETY: both arrays hold the whole shape.
    unsafe { reshape.exec(got.as_mut_ptr().cast(), held.as_ptr().cast(), std::ptr::null_mut(), None) }.expect("exec");
    let mut right = true;
    output.for_each(|point, place| right &= got[place as usize] == (point[0] * 6 + point[1]) as u64);
    job::note(place, &format!("rank {rank} of {ranks}, {}", if right { "right" } else { "wrong" }));
    ExitCode::SUCCESS
}

/// One process per set of variables; what each of them notes.
fn start(processes: &[Vec<(String, String)>]) -> Result<Vec<String>, String> {
    let mut job = Job::new("work");
    for (place, variables) in processes.iter().enumerate() {
        let place = place.to_string();
        let mut all = vec![("TEST_PLACE", place.as_str()), ("BOXWISE_BOOT_TIMEOUT_MS", "10000")];
        all.extend(variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        job = job.with(job::own_command(), &all);
    }
    let outcome = job.wait(Duration::from_secs(30))?;
    let note = |place: usize| match &outcome.notes[place][..] {
        [note] => Ok(note.clone()),
        notes => Err(format!("process {place} noted {notes:?}: {}", outcome.output[place])),
    };
    (0..processes.len()).map(note).collect()
}

fn filled(variables: Variables, rank: usize, job: &str) -> Vec<(String, String)> {
    let fill = |value: &str| value.replace("{rank}", &rank.to_string()).replace("{job}", job);
    variables.iter().map(|(name, value)| (name.to_string(), fill(value))).collect()
}

/// A name that no other run of these tests uses.
fn job_name() -> String {
    format!("test{}x{}", std::process::id(), fastrand::u32(..))
}

fn one_world(variables: Variables) -> Result<(), String> {
    let job = job_name();
    let processes: Vec<_> = (0..3).map(|rank| filled(variables, rank, &job)).collect();
    let notes = start(&processes)?;
    match notes == ["rank 0 of 3, right", "rank 1 of 3, right", "rank 2 of 3, right"] {
        true => Ok(()),
        false => Err(format!("{notes:#?}")),
    }
}

fn no_world(variables: Variables) -> Result<(), String> {
    let notes = start(&[filled(variables, 0, "unused")])?;
    let told = notes[0].starts_with("refused Unavailable ") && notes[0].contains("communicator");
    if told { Ok(()) } else { Err(format!("{notes:#?}")) }
}

fn alone(variables: Variables) -> Result<(), String> {
    let notes = start(&[filled(variables, 0, &job_name())])?;
    if notes == ["rank 0 of 1, right"] { Ok(()) } else { Err(format!("{notes:#?}")) }
}

fn two_jobs() -> Result<(), String> {
    let (first, second) = (job_name(), job_name());
    let both = [(0, &first), (0, &second), (1, &second), (2, &first), (1, &first), (2, &second)];
    let processes: Vec<_> = both.iter().map(|(rank, job)| filled(JOBS[4].1, *rank, job)).collect();
    let notes = start(&processes)?;
    let right = both.iter().zip(&notes).all(|((rank, _), note)| *note == format!("rank {rank} of 3, right"));
    if right { Ok(()) } else { Err(format!("{notes:#?}")) }
}

/// Processes that disagree about who they are: nobody gets a world, and nobody waits for ever.
fn quarrel() -> Result<(), String> {
    let job = job_name();
    let process = |rank: usize, size: &str| {
        let mut variables = filled(JOBS[6].1, rank, &job);
        variables[1].1 = size.to_owned();
        variables.push(("BOXWISE_BOOT_TIMEOUT_MS".into(), "1500".into()));
        variables
    };
    for processes in
        [[process(0, "3"), process(1, "3"), process(1, "3")], [process(0, "2"), process(1, "3"), process(2, "3")]]
    {
        let notes = start(&processes)?;
        if !notes.iter().all(|note| note.starts_with("refused ")) {
            return Err(format!("{notes:#?}"));
        }
    }
    Ok(())
}

/// A script may run one program after the other under one launcher: the name is free again.
fn one_after_the_other() -> Result<(), String> {
    let job = job_name();
    for _ in 0..5 {
        let notes = start(&(0..3).map(|rank| filled(JOBS[0].1, rank, &job)).collect::<Vec<_>>())?;
        if !notes.iter().all(|note| note.ends_with("of 3, right")) {
            return Err(format!("{notes:#?}"));
        }
    }
    Ok(())
}
