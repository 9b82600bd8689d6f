// axpy: 2 x + y from Go, twice. axpy [DEVICE]; `go build` builds it over an installed rota, which pkg-config finds.
package main

import (
	"fmt"
	"log"
	"os"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	log.SetFlags(0)
	id := ""
	if len(os.Args) > 1 {
		id = os.Args[1]
	}
	device, err := Open(id)
	must(err)
	defer device.Close()
	x, err := device.Tensor("x", []float32{1, 2, 3, 4})
	must(err)
	defer x.Release()
	y, err := device.Tensor("y", []float32{10, 20, 30, 40})
	must(err)
	defer y.Release()
	tape, err := device.Tape()
	must(err)
	defer tape.Destroy()
	must(tape.AddScaled(x, 2, y))
	must(tape.Submit()) // compiles
	must(tape.Submit()) // replays
	values, err := y.Read()
	must(err)
	fmt.Println(values)
}
