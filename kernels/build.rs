//! Compiles the kernels for build.rs with NVIDIA's compiler, and gives their image to the crate.
//!
//! CUDA_HOME (or BOXWISE_NVCC, or PATH) names the compiler, NVSHMEM_HOME NVSHMEM. BOXWISE_CUDA_ARCHITECTURES lists the
//! devices, such as `80,90`. BOXWISE_KERNELS_FORM is `fatbin`, linked code for those devices, or `ptx`, text that still
//! calls NVSHMEM's device functions by name: what the simulated driver of the tests runs.

use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHITECTURES: &str = "80,90,100,120";
const SOURCES: [&str; 2] = ["copy", "signal"];
const VARIABLES: [&str; 5] =
    ["BOXWISE_NVCC", "CUDA_HOME", "NVSHMEM_HOME", "BOXWISE_CUDA_ARCHITECTURES", "BOXWISE_KERNELS_FORM"];

/// Makes the image below `out`, and sets `BOXWISE_KERNELS` to its path for the crate.
pub fn build(out: &Path) {
    println!("cargo:rerun-if-changed=kernels");
    for name in VARIABLES {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let tools = Tools::find();
    let folder = out.join("kernels");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let image = match variable("BOXWISE_KERNELS_FORM").as_deref() {
        None | Some("fatbin") => fatbin(&tools, &folder),
        Some("ptx") => ptx(&tools, &folder),
        Some(other) => panic!("BOXWISE_KERNELS_FORM is {other:?}; it is fatbin or ptx"),
    };
    println!("cargo:rustc-env=BOXWISE_KERNELS={}", image.display());
}

/// The text for one virtual architecture, ended by the NUL that the driver expects.
fn ptx(tools: &Tools, folder: &Path) -> PathBuf {
    let image = folder.join("kernels.ptx");
    run(tools.nvcc().args(["-arch=compute_80", "-ptx", "kernels/all.cu", "-o"]).arg(&image));
    let mut text = std::fs::read(&image).expect("nvcc wrote it");
    text.push(0);
    std::fs::write(&image, text).expect("nvcc could write it");
    image
}

/// Linked code for each architecture in one file. The architectures compile side by side; what the assembler reports
/// of registers and spills stays beside the code, in `<source>.<architecture>.log`.
fn fatbin(tools: &Tools, folder: &Path) -> PathBuf {
    let list = variable("BOXWISE_CUDA_ARCHITECTURES").unwrap_or_else(|| ARCHITECTURES.into());
    let architectures: Vec<&str> = list.split([',', ';', ' ']).filter(|name| !name.is_empty()).collect();
    for name in &architectures {
        let number = name.strip_suffix(['a', 'f']).unwrap_or(name);
        assert!(
            number.parse().is_ok_and(|number: u32| number >= 80),
            "BOXWISE_CUDA_ARCHITECTURES has {name:?}; each is a number from 80, such as {ARCHITECTURES}"
        );
    }
    assert!(!architectures.is_empty(), "BOXWISE_CUDA_ARCHITECTURES is empty");
    std::thread::scope(|scope| {
        for name in &architectures {
            scope.spawn(move || cubin(tools, folder, name));
        }
    });
    let image = folder.join("kernels.fatbin");
    let mut command = Command::new(tools.program("fatbinary"));
    command.arg("-64").arg(format!("--create={}", image.display()));
    for name in architectures {
        let file = folder.join(format!("kernels.{name}.cubin"));
        command.arg(format!("--image3=kind=elf,sm={name},file={}", file.display()));
    }
    run(&mut command);
    image
}

fn cubin(tools: &Tools, folder: &Path, architecture: &str) {
    let target = format!("-arch=sm_{architecture}");
    let mut link = tools.nvcc();
    link.args([&target, "-dlink", "-cubin"]);
    for source in SOURCES {
        let object = folder.join(format!("{source}.{architecture}.o"));
        let mut compile = tools.nvcc();
        compile.args([&target, "-dc", "--ptxas-options=-v"]).arg(format!("kernels/{source}.cu"));
        let report = run(compile.arg("-o").arg(&object));
        let log = folder.join(format!("{source}.{architecture}.log"));
        std::fs::write(&log, report).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        link.arg(object);
    }
    link.arg(tools.nvshmem.join("lib/libnvshmem_device.a"));
    run(link.arg("-o").arg(folder.join(format!("kernels.{architecture}.cubin"))));
}

/// Runs it, and returns what it wrote on standard error.
fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let report = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {}\n{text}{report}", output.status);
    output.stderr
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

struct Tools {
    nvcc: PathBuf,
    nvshmem: PathBuf,
}

impl Tools {
    fn find() -> Tools {
        let named = variable("BOXWISE_NVCC").map(PathBuf::from);
        let home = variable("CUDA_HOME").map(|home| Path::new(&home).join("bin/nvcc"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let nvcc = named.or(home).or_else(|| {
            std::env::split_paths(&path).map(|folder| folder.join("nvcc")).find(|program| program.exists())
        });
        let Some(nvcc) = nvcc.filter(|program| program.exists()) else {
            panic!(
                "feature cuda: no nvcc. Set CUDA_HOME to a CUDA toolkit, 12.0 or newer, or BOXWISE_NVCC to its \
                 compiler; pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl also brings one"
            );
        };
        let Some(nvshmem) = variable("NVSHMEM_HOME").map(PathBuf::from) else {
            panic!("feature cuda: set NVSHMEM_HOME to NVSHMEM; pip install nvidia-nvshmem-cu13 brings one");
        };
        for file in ["include/nvshmem.h", "lib/libnvshmem_device.a"] {
            assert!(nvshmem.join(file).exists(), "feature cuda: NVSHMEM_HOME has no {file}: {}", nvshmem.display());
        }
        Tools { nvcc, nvshmem }
    }

    fn nvcc(&self) -> Command {
        let mut command = Command::new(&self.nvcc);
        command.args(["-std=c++17", "-rdc=true", "-I"]).arg(self.nvshmem.join("include"));
        command
    }

    /// Another program of the toolkit.
    fn program(&self, name: &str) -> PathBuf {
        self.nvcc.with_file_name(name)
    }
}
