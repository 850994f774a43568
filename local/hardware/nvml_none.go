//go:build !linux || !(amd64 || arm64) || nonvml

package hardware

import "github.com/norn-scheduler/norn/cluster"

// systemNVML is none: this build cannot load it.
func systemNVML(tree) nvml { return noNVML{} }

// noNVML is a machine without NVML.
type noNVML struct{}

func (noNVML) open() error                              { return errNoNVML }
func (noNVML) count() (int, error)                      { return 0, errNoNVML }
func (noNVML) gpu(int) (*nvidiaGPU, error)              { return nil, errNoNVML }
func (noNVML) find(string) (handle, error)              { return 0, errNoNVML }
func (noNVML) path(handle, handle) (cluster.Link, bool) { return cluster.Link{}, false }
func (noNVML) read(handle) (reading, error)             { return reading{}, errNoNVML }
func (noNVML) close()                                   {}
