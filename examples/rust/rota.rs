//! A safe part of rota: a device, tensors with data on it, and a tape of ops that is submitted. What is unsafe stands
//! here; `ffi` is what bindgen makes of rota/rota.h. A tensor holds its buffer, a tape its device, so that nothing is
//! used after its end.
use crate::ffi;
use std::{ffi::CStr, ffi::CString, fmt, marker::PhantomData, mem, ptr};

/// A status and its sentence.
#[derive(Debug)]
pub struct Error(pub ffi::rota_status, pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} (status {})", self.1, self.0)
    }
}
impl std::error::Error for Error {}

fn check(status: ffi::rota_status) -> Result<(), Error> {
    match status {
        ffi::rota_status_ROTA_OK => Ok(()),
        // The sentence is this thread's, and valid until its next failed call.
        _ => Err(Error(status, unsafe { CStr::from_ptr(ffi::rota_last_error()) }.to_string_lossy().into_owned())),
    }
}

/// A device with its runtime, closed at the end. Any number of threads may use it.
pub struct Device(*mut ffi::rota_device);
unsafe impl Send for Device {}
unsafe impl Sync for Device {}

impl Device {
    /// `id`: "cpu", "vk:0", "cuda:0"; None: the best that passes its smoke test.
    pub fn open(id: Option<&str>) -> Result<Device, Error> {
        let id = id.map(|id| CString::new(id).expect("no NUL in a device's id"));
        let mut device = ptr::null_mut();
        check(unsafe { ffi::rota_open(id.as_ref().map_or(ptr::null(), |id| id.as_ptr()), ptr::null(), &mut device) })?;
        Ok(Device(device))
    }
    /// f32 values of this shape, copied to the device.
    pub fn tensor(&self, name: &str, shape: &[u64], values: &[f32]) -> Result<Tensor<'_>, Error> {
        assert_eq!(shape.iter().product::<u64>(), values.len() as u64, "as many values as the shape says");
        let name = CString::new(name).expect("no NUL in a name");
        let mut raw = unsafe { mem::zeroed() };
        check(unsafe {
            ffi::rota_tensor_create(self.0, name.as_ptr(), ffi::rota_dtype_ROTA_F32, shape.len() as u32,
                                    shape.as_ptr(), values.as_ptr().cast(), &mut raw)
        })?;
        Ok(Tensor { raw, count: values.len(), device: PhantomData })
    }
    pub fn tape(&self) -> Result<Tape<'_>, Error> {
        let mut raw = ptr::null_mut();
        check(unsafe { ffi::rota_tape_create_on(self.0, ptr::null(), &mut raw) })?;
        Ok(Tape { raw, device: PhantomData })
    }
}
impl Drop for Device {
    fn drop(&mut self) {
        unsafe { ffi::rota_close(self.0, 0) };
    }
}

/// A tensor that keeps its data.
pub struct Tensor<'d> {
    raw: ffi::rota_tensor,
    count: usize,
    device: PhantomData<&'d Device>,
}
impl Tensor<'_> {
    /// What the last submission before it wrote; waits for that.
    pub fn read(&self) -> Result<Vec<f32>, Error> {
        let mut values = vec![0f32; self.count];
        check(unsafe { ffi::rota_tensor_read(&self.raw, values.as_mut_ptr().cast(), self.count as u64 * 4) })?;
        Ok(values)
    }
}
impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        unsafe { ffi::rota_buffer_release(self.raw.buffer) };
    }
}

/// Ops that are recorded, compiled at the first submit, and replayed by later ones. One thread's.
pub struct Tape<'d> {
    raw: *mut ffi::rota_tape,
    device: PhantomData<&'d Device>,
}
impl<'d> Tape<'d> {
    /// y = factor * x + y, in place: the accesses say that it reads what was written before.
    pub fn add_scaled(&mut self, x: &Tensor<'d>, factor: f64, y: &Tensor<'d>) -> Result<(), Error> {
        let factor = unsafe { ffi::rota_value_plain(factor) };
        let mut scaled = unsafe { mem::zeroed() };
        check(unsafe { ffi::rota_op_scale(self.raw, x.raw, factor, &mut scaled) })?;
        check(unsafe { ffi::rota_op_add_into(self.raw, scaled, y.raw, y.raw) })
    }
    pub fn submit(&mut self) -> Result<(), Error> {
        check(unsafe { ffi::rota_tape_submit(self.raw, ptr::null(), ptr::null_mut()) })
    }
}
impl Drop for Tape<'_> {
    fn drop(&mut self) {
        unsafe { ffi::rota_tape_destroy(self.raw) };
    }
}
