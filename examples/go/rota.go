package main

// #cgo pkg-config: rota
// #include <rota/rota.h>
// #include <stdlib.h>
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

// call makes a call of rota's and gives its sentence as an error. A sentence is a thread's, and goroutines change
// threads: this one stays on its own until the sentence is read.
func call(f func() C.rota_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if f() != C.ROTA_OK {
		return errors.New(C.GoString(C.rota_last_error()))
	}
	return nil
}

// Device is a device with its runtime. Any number of goroutines may use it.
type Device struct{ raw *C.rota_device }

// Open opens "cpu", "vk:0", "cuda:0", or for "" the best device that passes its smoke test.
func Open(id string) (*Device, error) {
	device := new(Device)
	var name *C.char
	if id != "" {
		name = C.CString(id)
		defer C.free(unsafe.Pointer(name))
	}
	return device, call(func() C.rota_status { return C.rota_open(name, nil, &device.raw) })
}

// Close ends the device, after its tensors and tapes.
func (d *Device) Close() { C.rota_close(d.raw, 0) }

// Tensor keeps its data on the device.
type Tensor struct {
	raw   C.rota_tensor
	count int
}

// Tensor copies f32 values to the device.
func (d *Device) Tensor(name string, values []float32) (*Tensor, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	tensor, shape := &Tensor{count: len(values)}, C.uint64_t(len(values))
	var raw C.rota_tensor // C writes to no memory of Go's that holds pointers
	err := call(func() C.rota_status {
		return C.rota_tensor_create(d.raw, text, C.ROTA_F32, 1, &shape, unsafe.Pointer(&values[0]), &raw)
	})
	tensor.raw = raw
	return tensor, err
}

// Read waits for what was submitted before it, and gives what that wrote.
func (t *Tensor) Read() ([]float32, error) {
	values, raw := make([]float32, t.count), t.raw
	return values, call(func() C.rota_status {
		return C.rota_tensor_read(&raw, unsafe.Pointer(&values[0]), C.uint64_t(4*t.count))
	})
}

// Release gives the tensor's buffer back, also while a device uses it.
func (t *Tensor) Release() { C.rota_buffer_release(t.raw.buffer) }

// Tape records ops; the first Submit compiles, later ones replay.
type Tape struct{ raw *C.rota_tape }

// Tape makes one.
func (d *Device) Tape() (*Tape, error) {
	tape := new(Tape)
	return tape, call(func() C.rota_status { return C.rota_tape_create_on(d.raw, nil, &tape.raw) })
}

// AddScaled records y = factor * x + y.
func (t *Tape) AddScaled(x *Tensor, factor float64, y *Tensor) error {
	var scaled C.rota_tensor
	err := call(func() C.rota_status {
		return C.rota_op_scale(t.raw, x.raw, C.rota_value_plain(C.double(factor)), &scaled)
	})
	if err != nil {
		return err
	}
	return call(func() C.rota_status { return C.rota_op_add_into(t.raw, scaled, y.raw, y.raw) })
}

// Submit returns at once.
func (t *Tape) Submit() error {
	return call(func() C.rota_status { return C.rota_tape_submit(t.raw, nil, nil) })
}

// Destroy ends the tape, also while what it submitted runs.
func (t *Tape) Destroy() { C.rota_tape_destroy(t.raw) }
