//! Which job this process belongs to, told by the variables of the launcher that started it.

use crate::config;
use crate::error::{Error, Result, Status};

/// More ranks than any node runs: a larger number is a mistake, and memory must not be set aside for it.
const MOST_RANKS: usize = 1 << 16;

/// A rank's place in a job whose ranks all run on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// This process's rank.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// A name that the ranks of this job share, and no other job of this user has.
    pub name: String,
}

/// A launcher's variables: who I am, how many we are, how many of us are here, and what job it is.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    /// Variables that hold the number of ranks on this node.
    local_size: &'static [&'static str],
    /// A variable that holds the number of nodes.
    nodes: Option<&'static str>,
    /// Variables that together name the job.
    job: &'static [&'static str],
    /// Whether these need the launcher's process to tell this job from another.
    job_needs_process: bool,
}

/// In the order asked: the innermost launcher first, since Slurm's variables are also there under the others.
const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_size: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        nodes: None,
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
        job_needs_process: false,
    },
    Launcher {
        name: "PMI",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_size: &["MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"],
        nodes: Some("SLURM_STEP_NUM_NODES"),
        job: &["PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"],
        job_needs_process: true,
    },
    Launcher {
        name: "Slurm",
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_size: &[],
        nodes: Some("SLURM_STEP_NUM_NODES"),
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
        job_needs_process: false,
    },
];

/// Set by launchers of parallel jobs whose other variables are not known here.
const SIGNS: [&str; 6] =
    ["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"];

/// The job, `None` for a process that no launcher started; an error where the variables do not say that all ranks
/// are on this node. `get` reads a variable, `launcher_process` is [`launcher_process`].
pub fn find_job(get: impl Fn(&str) -> Option<String>, launcher_process: u32) -> Result<Option<Job>> {
    let own = [config::RANK.name, config::SIZE.name, config::JOB.name];
    if own.iter().any(|name| get(name).is_some()) {
        let [rank, size, job] = own.map(&get);
        let (Some(rank), Some(size), Some(job)) = (rank, size, job) else {
            return Err(unavailable(format!("{}, {} and {} must be set together", own[0], own[1], own[2])));
        };
        let (rank, size) = parse(own[0], &rank, own[1], &size)?;
        return Ok(Some(Job { rank, size, name: job }));
    }
    for launcher in &LAUNCHERS {
        let (Some(rank), Some(size)) = (get(launcher.rank), get(launcher.size)) else { continue };
        let (rank, size) = parse(launcher.rank, &rank, launcher.size, &size)?;
        launcher.require_one_node(&get, size)?;
        let mut name = vec![launcher.rank.to_string()];
        name.extend(launcher.job.iter().filter_map(|variable| get(variable)));
        if launcher.job_needs_process || name.len() == 1 {
            name.push(format!("by-{launcher_process}"));
        }
        return Ok(Some(Job { rank, size, name: name.join(".") }));
    }
    // Some parallel job, and never a world of one inside it.
    if let Some(sign) = SIGNS.into_iter().find(|sign| get(sign).is_some()) {
        return Err(unavailable(format!("{sign} is set, but not the variables that say how many ranks are where")));
    }
    match get("SLURM_PROCID").as_deref() {
        // In a batch script outside any step there is one process, whatever the allocation holds.
        None | Some("0") => Ok(None),
        Some(rank) => Err(unavailable(format!("SLURM_PROCID is {rank}, but SLURM_STEP_NUM_TASKS is not set"))),
    }
}

/// The process that started the ranks of this job, as far as it can be told. Hydra starts each rank in a session of
/// its own, so that the first process of the session is its child, whatever scripts lie between that and this one.
pub fn launcher_process() -> u32 {
    let hydra = std::env::var_os("PMI_FD").is_some();
    // SAFETY: asks for a number of this process.
    let session = unsafe { libc::getsid(0) };
    let parent_of_session = || {
        let stat = std::fs::read_to_string(format!("/proc/{session}/stat")).ok()?;
        // The name in parentheses may hold anything: state and parent come after the last one.
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    hydra.then(parent_of_session).flatten().unwrap_or_else(std::os::unix::process::parent_id)
}

impl Launcher {
    fn require_one_node(&self, get: &impl Fn(&str) -> Option<String>, size: usize) -> Result<()> {
        let number = |name: &&str| get(name).and_then(|value| value.trim().parse::<usize>().ok());
        let local = self.local_size.iter().find_map(number);
        let nodes = self.nodes.as_ref().and_then(number);
        match (local, nodes) {
            _ if size == 1 => Ok(()),
            (Some(local), _) if local == size => Ok(()),
            (None, Some(1)) => Ok(()),
            (Some(local), _) => {
                Err(unavailable(format!("{} runs {size} ranks, of which {local} are on this node", self.name)))
            }
            (None, Some(nodes)) => Err(unavailable(format!("{} runs {size} ranks on {nodes} nodes", self.name))),
            (None, None) => Err(unavailable(format!(
                "{} runs {size} ranks, and none of {:?} says how many are on this node",
                self.name,
                self.local_size.iter().chain(&self.nodes).collect::<Vec<_>>()
            ))),
        }
    }
}

fn unavailable(what: String) -> Error {
    Error::new(
        Status::Unavailable,
        format!(
            "no world without a communicator here: {what}; start the ranks of one node with boxwise-run, \
             or pass a communicator to make"
        ),
    )
}

fn parse(rank_name: &str, rank: &str, size_name: &str, size: &str) -> Result<(usize, usize)> {
    match (rank.trim().parse::<usize>(), size.trim().parse::<usize>()) {
        (Ok(rank), Ok(size)) if rank < size && size <= MOST_RANKS => Ok((rank, size)),
        _ => Err(unavailable(format!(
            "{rank_name}={rank} and {size_name}={size} are not a rank and a size of at most {MOST_RANKS}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Option<Job>> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        find_job(get, 77)
    }

    fn job(rank: usize, size: usize, name: &str) -> Result<Option<Job>> {
        Ok(Some(Job { rank, size, name: name.into() }))
    }

    #[test]
    fn every_launcher_is_recognised() {
        assert_eq!(find(&[]), Ok(None));
        assert_eq!(find(&[("BOXWISE_RANK", "1"), ("BOXWISE_SIZE", "2"), ("BOXWISE_JOB", "j")]), job(1, 2, "j"));
        let ompi = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("PMIX_NAMESPACE", "x"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "1"),
        ];
        assert_eq!(find(&ompi), job(0, 4, "OMPI_COMM_WORLD_RANK.x"));
        let pmi = [("PMI_RANK", "3"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "4")];
        assert_eq!(find(&pmi), job(3, 4, "PMI_RANK.by-77"));
        let slurm = [
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_STEP_NUM_NODES", "1"),
            ("SLURM_JOB_ID", "8"),
            ("SLURM_STEP_ID", "0"),
        ];
        assert_eq!(find(&slurm), job(1, 2, "SLURM_PROCID.8.0"));
        let in_slurm = [&pmi[..], &slurm[3..]].concat();
        assert_eq!(find(&in_slurm), job(3, 4, "PMI_RANK.8.0.by-77"));
        assert_eq!(find(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), Ok(None));
    }

    #[test]
    fn a_parallel_job_is_never_taken_for_worlds_of_one() {
        for variables in [
            &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")][..],
            &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")],
            &[("OMPI_COMM_WORLD_RANK", "0")],
            &[("PMI_RANK", "0"), ("PMI_SIZE", "4")],
            &[("PMI_SIZE", "4")],
            &[("PMIX_RANK", "0")],
            &[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "3")],
            &[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_STEP_NUM_NODES", "2")],
            &[("BOXWISE_RANK", "0")],
            &[("BOXWISE_RANK", "2"), ("BOXWISE_SIZE", "2"), ("BOXWISE_JOB", "j")],
            &[("BOXWISE_RANK", "0"), ("BOXWISE_SIZE", "2147483647"), ("BOXWISE_JOB", "j")],
            &[("BOXWISE_RANK", "x"), ("BOXWISE_SIZE", "2"), ("BOXWISE_JOB", "j")],
        ] {
            assert_eq!(find(variables).unwrap_err().status, Status::Unavailable, "{variables:?}");
        }
    }
}
