//! Prints the version, and every environment variable with its meaning and present value.

fn main() {
    println!("boxwise {}", env!("CARGO_PKG_VERSION"));
    for variable in boxwise::VARIABLES {
        let value = variable.get().unwrap_or_else(|| format!("not set ({})", variable.default));
        println!("{:<24} {}\n{:<24} {}", variable.name, value, "", variable.meaning);
    }
}
