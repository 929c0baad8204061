//! The search for the MPI plugin: compiled from `mpi/boxwise_mpi.c` with the MPI of this process.

use super::mpi::{Family, Mpi};
use crate::config::MPI_PLUGIN;
use crate::error::{Error, Result, Status};
use libloading::os::unix::Library;
use once_cell::sync::OnceCell;
use std::ffi::{CStr, OsStr, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What `call` makes of the plugin's function, whose address it is given.
///
/// A plugin that `call` finds [`Status::Unavailable`] is passed over for the next candidate. The first that is not is
/// the plugin of this process for good. No lock is held meanwhile: `call` may wait for other ranks.
pub fn with_mpi_plugin<T>(call: impl Fn(*const c_void) -> Result<T>) -> Result<T> {
    static FOUND: OnceCell<usize> = OnceCell::new();
    if let Some(&function) = FOUND.get() {
        return call(function as *const c_void);
    }
    let search = Search::new()?;
    let mut tried = Vec::new();
    for file in &search.files {
        let loaded = load(file);
        match loaded.clone().and_then(|function| call(function as *const c_void)) {
            Err(error) if error.status == Status::Unavailable => {
                let detail = error.detail;
                let name = file.display().to_string();
                tried.push(if detail.starts_with(&name) { detail } else { format!("{name}: {detail}") });
            }
            outcome => {
                let function = loaded.expect("else the outcome would be UNAVAILABLE");
                FOUND.get_or_init(|| {
                    stay();
                    function
                });
                return outcome;
            }
        }
    }
    Err(Error::new(Status::Unavailable, format!("{}; tried {}", search.advice(), tried.join("; "))))
}

/// The address of the function of the plugin in this file.
///
/// Nothing is unloaded, whether it was a plugin or not: with it may have come an MPI, and those do not bear that.
fn load(file: &Path) -> Result<usize> {
    let unavailable = |error: libloading::Error| Error::new(Status::Unavailable, error.to_string());
    // SAFETY: what the user put in this place is meant to be loaded.
    let library = unsafe { Library::open(Some(file), libc::RTLD_NOW | libc::RTLD_LOCAL) }.map_err(unavailable)?;
    let library = ManuallyDrop::new(library);
    // SAFETY: the address is only looked at here.
    unsafe { library.get::<*const c_void>(b"boxwise_mpi_boot\0") }
        .map(|function| function.into_raw() as usize)
        .map_err(|_| Error::new(Status::Unavailable, "this file is no plugin, it has no boxwise_mpi_boot"))
}

/// Keeps this library in the process: MPI will call it when its communicators end.
fn stay() {
    let flags = libc::RTLD_NOLOAD | libc::RTLD_NODELETE | libc::RTLD_LAZY;
    // SAFETY: nothing is loaded or run, the library is there already. A program that holds boxwise itself has no such
    // library, and stays as well.
    let _ = own_file().map(|file| ManuallyDrop::new(unsafe { Library::open(Some(file), flags) }));
}

/// The file that holds this code: the shared library, or a program that is linked with the crate.
fn own_file() -> Option<PathBuf> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: there is room for the answer; the address need not be valid.
    let found = unsafe { libc::dladdr(own_file as fn() -> Option<PathBuf> as *const c_void, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: dladdr found the file and filled this; the name lives as long as the file is loaded.
    let name = unsafe { CStr::from_ptr(info.assume_init().dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Where a plugin may be, and for what.
struct Search {
    mpi: Option<Mpi>,
    /// The folder of this library.
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl Search {
    fn new() -> Result<Search> {
        let folder = own_file().and_then(|file| Some(file.parent()?.to_owned())).unwrap_or_default();
        let mpi = Mpi::find();
        let files = match (MPI_PLUGIN.get(), &mpi) {
            (Some(file), _) => vec![file.into()],
            (None, Some(mpi)) => candidates(mpi.family, &folder),
            (None, None) => {
                return Err(Error::new(
                    Status::Unavailable,
                    "there is no MPI in this process to which a communicator could belong; link the program with MPI, \
                     or use BOXWISE_COMM_NONE or BOXWISE_COMM_BOOT",
                ));
            }
        };
        Ok(Search { mpi, folder, files })
    }

    /// What to do when none of the files is the plugin.
    fn advice(&self) -> String {
        let family = self.mpi.as_ref().map_or(Family::Other, |mpi| mpi.family);
        let version = self.mpi.as_ref().map_or("none that can be seen", |mpi| &mpi.version);
        let missing = match MPI_PLUGIN.get() {
            Some(file) => format!("{}={file} is no plugin", MPI_PLUGIN.name),
            None => "no plugin was found".into(),
        };
        let (include, source) = source(&self.folder);
        let output = self.folder.join(file_name(family));
        format!(
            "{missing} for the MPI of this process ({version}); compile one with its mpicc: mpicc -shared -fPIC -O2 \
             -fvisibility=hidden -I{} {} -o {}; a plugin elsewhere is named by {}",
            include.display(),
            source.display(),
            output.display(),
            MPI_PLUGIN.name
        )
    }
}

fn file_name(family: Family) -> String {
    format!("libboxwise_mpi{}.so", family.suffix())
}

/// The plugin of the family, then one that does not say; each first beside this library, then where the loader looks.
fn candidates(family: Family, folder: &Path) -> Vec<PathBuf> {
    let mut names = vec![file_name(family), file_name(Family::Other)];
    names.dedup();
    names.into_iter().flat_map(|name| [folder.join(&name), name.into()]).collect()
}

/// Where the header and the plugin's source are: in the installation that the library in `folder` belongs to, else in
/// the source tree.
fn source(folder: &Path) -> (PathBuf, PathBuf) {
    let installed = folder.ancestors().skip(1).take(2).find_map(|prefix| {
        let (include, source) = (prefix.join("include"), prefix.join("share/boxwise/mpi/boxwise_mpi.c"));
        (include.join("boxwise.h").exists() && source.exists()).then_some((include, source))
    });
    installed.unwrap_or_else(|| ("include".into(), "mpi/boxwise_mpi.c".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_the_familys_and_then_the_general_one() {
        let names =
            |family| candidates(family, Path::new("/a")).iter().map(|file| file.display().to_string()).collect();
        let wanted: Vec<String> =
            ["/a/libboxwise_mpi_mpich.so", "libboxwise_mpi_mpich.so", "/a/libboxwise_mpi.so", "libboxwise_mpi.so"]
                .map(str::to_owned)
                .into();
        let names: [Vec<String>; 2] = [names(Family::Mpich), names(Family::Other)];
        assert_eq!(names[0], wanted);
        assert_eq!(names[1], wanted[2..]);
    }

    #[test]
    fn the_source_is_told_where_it_is_installed() {
        let prefix = std::env::temp_dir().join(format!("boxwise-plugin-{}", std::process::id()));
        for (path, folder) in [("include", "lib"), ("share/boxwise/mpi", "lib/x86_64-linux-gnu")] {
            std::fs::create_dir_all(prefix.join(path)).unwrap();
            std::fs::create_dir_all(prefix.join(folder)).unwrap();
        }
        let tree = (PathBuf::from("include"), PathBuf::from("mpi/boxwise_mpi.c"));
        assert_eq!(source(&prefix.join("lib")), tree);
        std::fs::write(prefix.join("include/boxwise.h"), "").unwrap();
        std::fs::write(prefix.join("share/boxwise/mpi/boxwise_mpi.c"), "").unwrap();
        let installed = (prefix.join("include"), prefix.join("share/boxwise/mpi/boxwise_mpi.c"));
        assert_eq!(source(&prefix.join("lib")), installed);
        assert_eq!(source(&prefix.join("lib/x86_64-linux-gnu")), installed);
        assert_eq!(source(Path::new("")), tree);
        std::fs::remove_dir_all(&prefix).unwrap();
    }

    #[test]
    fn without_mpi_there_is_nothing_to_search_for() {
        let error = with_mpi_plugin(|_| Ok(())).unwrap_err();
        assert_eq!(error.status, Status::Unavailable);
        assert!(error.detail.contains("no MPI in this process"), "{error}");
        let error = load(Path::new("libm.so.6")).unwrap_err();
        assert!(error.detail.contains("no boxwise_mpi_boot"), "{error}");
        assert!(own_file().is_some_and(|file| file.exists()));
    }
}
