//! 2 x + y from Rust, twice. axpy [DEVICE]; examples/rust/build.sh builds it.
#[allow(non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code)]
mod ffi {
    include!(concat!(env!("ROTA_BINDINGS"), "/bindings.rs"));
}
mod rota;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let id = std::env::args().nth(1);
    let device = rota::Device::open(id.as_deref())?;
    let x = device.tensor("x", &[4], &[1.0, 2.0, 3.0, 4.0])?;
    let y = device.tensor("y", &[4], &[10.0, 20.0, 30.0, 40.0])?;
    let mut tape = device.tape()?;
    tape.add_scaled(&x, 2.0, &y)?;
    tape.submit()?; // compiles
    tape.submit()?; // replays
    println!("{:?}", y.read()?);
    Ok(())
}
