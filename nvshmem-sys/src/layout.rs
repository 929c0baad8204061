//! The structs of NVSHMEM's host interface, as version 3 has them. Private parts are bytes.

use std::ffi::{c_int, c_void};

/// `nvshmemx_uniqueid_t`: made by one process, and given to all that will initialise NVSHMEM together.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueId {
    /// [`UniqueId::VERSION`].
    pub version: c_int,
    /// What only NVSHMEM reads.
    pub internal: [u8; 124],
}

/// `nvshmemx_uniqueid_args_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UniqueIdArgs {
    /// 2^16 + size of this struct.
    pub version: c_int,
    /// Not copied: it must live until NVSHMEM is initialised.
    pub id: *mut UniqueId,
    /// The process, 0 to `size` - 1.
    pub rank: c_int,
    /// The number of processes.
    pub size: c_int,
}

/// `nvshmemx_init_args_t`, second version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InitArgs {
    /// 2^17 + size of this struct.
    pub version: c_int,
    /// The unique id, and who this process is.
    pub unique_id: UniqueIdArgs,
    /// The device to use, or -1 for that of the current context.
    pub cuda_device: c_int,
    /// Not used yet.
    pub reserved: [u8; 92],
}

/// `nvshmemx_init_attr_t`, second version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InitAttr {
    /// 2^17 + size of this struct.
    pub version: c_int,
    /// Of the bootstrap by MPI.
    pub mpi_comm: *mut c_void,
    /// Of the bootstrap by a unique id.
    pub args: InitArgs,
}

const VERSION_1: usize = 1 << 16;
const VERSION_2: usize = 2 << 16;

impl UniqueId {
    /// The first version and the size of the struct.
    pub const VERSION: c_int = (VERSION_1 + size_of::<UniqueId>()) as c_int;

    /// One that [`crate::Library::get_unique_id`] can fill.
    pub const fn empty() -> UniqueId {
        UniqueId { version: UniqueId::VERSION, internal: [0; 124] }
    }

    /// As it travels to the other processes.
    pub fn to_bytes(self) -> [u8; 128] {
        let mut bytes = [0; 128];
        bytes[..4].copy_from_slice(&self.version.to_ne_bytes());
        bytes[4..].copy_from_slice(&self.internal);
        bytes
    }

    /// What [`UniqueId::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8; 128]) -> UniqueId {
        let (version, internal) = bytes.split_at(4);
        UniqueId {
            version: c_int::from_ne_bytes(version.try_into().expect("split at four")),
            internal: internal.try_into().expect("124 bytes are left"),
        }
    }
}

impl InitAttr {
    /// Attributes without a bootstrap: [`crate::Library::set_unique_id_args`] gives one.
    pub const fn empty() -> InitAttr {
        InitAttr {
            version: (VERSION_2 + size_of::<InitAttr>()) as c_int,
            mpi_comm: std::ptr::null_mut(),
            args: InitArgs {
                version: (VERSION_2 + size_of::<InitArgs>()) as c_int,
                unique_id: UniqueIdArgs {
                    version: (VERSION_1 + size_of::<UniqueIdArgs>()) as c_int,
                    id: std::ptr::null_mut(),
                    rank: 0,
                    size: 0,
                },
                cuda_device: -1,
                reserved: [0; 92],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// NVSHMEM's name of a size or offset, and ours.
    const LAYOUT: [(&str, usize); 13] = [
        ("sizeof(nvshmemx_uniqueid_t)", size_of::<UniqueId>()),
        ("offsetof(nvshmemx_uniqueid_t, internal)", offset_of!(UniqueId, internal)),
        ("sizeof(nvshmemx_uniqueid_args_t)", size_of::<UniqueIdArgs>()),
        ("offsetof(nvshmemx_uniqueid_args_t, id)", offset_of!(UniqueIdArgs, id)),
        ("offsetof(nvshmemx_uniqueid_args_t, myrank)", offset_of!(UniqueIdArgs, rank)),
        ("offsetof(nvshmemx_uniqueid_args_t, nranks)", offset_of!(UniqueIdArgs, size)),
        ("sizeof(nvshmemx_init_args_t)", size_of::<InitArgs>()),
        ("offsetof(nvshmemx_init_args_t, uid_args)", offset_of!(InitArgs, unique_id)),
        ("offsetof(nvshmemx_init_args_t, cuda_device_id)", offset_of!(InitArgs, cuda_device)),
        ("sizeof(nvshmemx_init_attr_t)", size_of::<InitAttr>()),
        ("offsetof(nvshmemx_init_attr_t, mpi_comm)", offset_of!(InitAttr, mpi_comm)),
        ("offsetof(nvshmemx_init_attr_t, args)", offset_of!(InitAttr, args)),
        ("NVSHMEM_STATUS_IS_INITIALIZED", crate::IS_INITIALIZED as usize),
    ];

    #[test]
    #[ignore = "needs NVSHMEM_HOME, CUDA_HOME and g++"]
    fn layouts_are_those_of_the_headers() {
        let home = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        let folder = std::env::temp_dir().join(format!("nvshmem-sys-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the program");
        let (source, program) = (folder.join("layout.cpp"), folder.join("layout"));
        let mut asked: String = LAYOUT.iter().map(|(name, _)| format!("  print((long)({name}));\n")).collect();
        let versions = [
            ("NVSHMEM_INIT_ATTR_V2_IDENTIFIER", InitAttr::empty().version),
            ("NVSHMEM_INIT_ARGS_V2_IDENTIFIER", InitAttr::empty().args.version),
        ];
        asked.extend(versions.iter().map(|(name, _)| format!("  print((long)({name}));\n")));
        std::fs::write(
            &source,
            format!(
                "#include <cstddef>\n#include <cstdio>\n#include \"nvshmem_host.h\"\n\
                 static void print(long value) {{ std::printf(\"%ld\\n\", value); }}\nint main() {{\n{asked}}}\n"
            ),
        )
        .expect("the program can be written");
        let built = std::process::Command::new("g++")
            .args(["-std=c++17", "-w", "-o"])
            .args([&program, &source])
            .args(["NVSHMEM_HOME", "CUDA_HOME"].map(|name| format!("-I{}/include", home(name))))
            .status();
        assert!(built.is_ok_and(|status| status.success()), "the program compiles");
        let printed = std::process::Command::new(&program).output().expect("it runs").stdout;
        let printed = String::from_utf8(printed).expect("numbers");
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
        let ours = LAYOUT.iter().copied().chain(versions.map(|(name, version)| (name, version as usize)));
        let theirs: Vec<usize> = printed.lines().map(|line| line.parse().expect("a number")).collect();
        assert_eq!(theirs.len(), LAYOUT.len() + versions.len());
        for ((name, ours), theirs) in ours.zip(theirs) {
            assert_eq!(ours, theirs, "{name}");
        }
    }

    #[test]
    fn a_unique_id_travels() {
        let mut id = UniqueId::empty();
        id.internal[123] = 7;
        assert_eq!(UniqueId::from_bytes(&id.to_bytes()), id);
        assert_eq!(id.version, 0x10080);
    }
}
