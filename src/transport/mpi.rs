//! Which MPI runs in this process.

use libloading::os::unix::Library;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};

/// MPIs of one family have the same binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The standard interface of MPI 5.
    StandardAbi,
    OpenMpi,
    /// MPICH and what descends from it: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
    Other,
}

/// The MPI of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    pub family: Family,
    /// The first line of what it calls itself.
    pub version: String,
}

/// As much as any MPI writes: MPICH up to 8192 bytes.
const VERSION_BYTES: usize = 16384;
const VERSION_SHOWN: usize = 80;

impl Mpi {
    /// Looks for its functions where the program and its libraries find theirs, then in each loaded library of MPI's
    /// name: hosts such as Python load MPI so that others do not see it.
    pub fn find() -> Option<Mpi> {
        look_in(&Library::this()).or_else(|| {
            let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
            loaded_libraries(&maps).iter().find_map(|path| look_in(&loaded(path)?))
        })
    }
}

impl Family {
    fn of(version: &str, abi: Option<(c_int, c_int)>) -> Family {
        let names = |all: &[&str]| all.iter().any(|name| version.contains(name));
        // An MPI of version 5 that has an interface of its own says -1.
        if abi.is_some_and(|(major, _)| major > 0) {
            Family::StandardAbi
        } else if names(&["MPICH", "Intel(R) MPI", "MVAPICH"]) {
            Family::Mpich
        } else if names(&["Open MPI", "Spectrum MPI"]) {
            Family::OpenMpi
        } else {
            Family::Other
        }
    }

    /// The end of the name of its plugin.
    pub fn suffix(self) -> &'static str {
        match self {
            Family::StandardAbi => "_abi",
            Family::OpenMpi => "_openmpi",
            Family::Mpich => "_mpich",
            Family::Other => "",
        }
    }
}

fn look_in(library: &Library) -> Option<Mpi> {
    type GetLibraryVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    type AbiGetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut text, mut length) = (vec![0u8; VERSION_BYTES], 0);
    // SAFETY: every MPI has the function with these arguments, and allows it at any time.
    let failed = unsafe {
        let get_version = library.get::<GetLibraryVersion>(b"MPI_Get_library_version\0").ok()?;
        get_version(text.as_mut_ptr().cast(), &mut length)
    };
    // SAFETY: as above.
    let abi = unsafe {
        let (mut major, mut minor) = (-1, -1);
        let get_version = library.get::<AbiGetVersion>(b"MPI_Abi_get_version\0").ok();
        get_version.and_then(|get_version| (get_version(&mut major, &mut minor) == 0).then_some((major, minor)))
    };
    let text = CStr::from_bytes_until_nul(&text).ok().filter(|_| failed == 0)?.to_string_lossy();
    let line = text.lines().next().unwrap_or_default();
    Some(Mpi { family: Family::of(&text, abi), version: line.chars().take(VERSION_SHOWN).collect() })
}

/// The files among those mapped into the process that are called like a library of MPI's.
fn loaded_libraries(maps: &str) -> BTreeSet<PathBuf> {
    // Five columns come before the path.
    let path = |line: &str| line.find('/').map(|start| PathBuf::from(&line[start..]));
    let is_mpi = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libmpi") && name.contains(".so")
    };
    maps.lines().filter_map(path).filter(is_mpi).collect()
}

fn loaded(path: &Path) -> Option<Library> {
    // SAFETY: nothing is loaded or run, the library is there already.
    unsafe { Library::open(Some(path), libc::RTLD_NOLOAD | libc::RTLD_LAZY) }.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mpi_is_known_by_what_it_calls_itself() {
        for (version, family) in [
            ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022", Family::OpenMpi),
            ("MPICH Version:      4.0.2\nMPICH Release date: Thu Apr  7", Family::Mpich),
            ("Intel(R) MPI Library 2021.9 for Linux* OS\n", Family::Mpich),
            ("MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date : Wed March 02", Family::Mpich),
            ("MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\n", Family::Mpich),
            ("MPC 4.2", Family::Other),
        ] {
            assert_eq!(Family::of(version, None), family, "{version}");
            assert_eq!(Family::of(version, Some((-1, -1))), family, "{version}");
            assert_eq!(Family::of(version, Some((1, 0))), Family::StandardAbi, "{version}");
        }
    }

    #[test]
    fn libraries_of_mpi_are_known_by_their_names() {
        let maps = "7f00-7f01 r-xp 00000000 fe:00 12 /opt/my mpi/lib/libmpi.so.40.30.4\n\
                    7f02-7f03 r--p 00000000 fe:00 12 /opt/my mpi/lib/libmpi.so.40.30.4\n\
                    7f04-7f05 r-xp 00000000 fe:00 13 /usr/lib/libmpich.so.12\n\
                    7f06-7f07 r-xp 00000000 fe:00 14 /usr/lib/libmpfr.so.6\n\
                    7f08-7f09 rw-p 00000000 00:00 0 [heap]\n\
                    7f0a-7f0b r--s 00000000 fe:00 15 /tmp/libmpi.txt\n";
        let wanted = ["/opt/my mpi/lib/libmpi.so.40.30.4", "/usr/lib/libmpich.so.12"];
        assert_eq!(loaded_libraries(maps), wanted.map(PathBuf::from).into());
    }

    #[test]
    fn this_process_has_no_mpi() {
        assert_eq!(Mpi::find(), None);
    }
}
