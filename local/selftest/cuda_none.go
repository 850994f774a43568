//go:build !linux || !(amd64 || arm64) || nonvml

package selftest

import "errors"

// errNoCUDA is a build that cannot load CUDA.
var errNoCUDA = errors.New("this build of norn cannot load CUDA")

func visibleGPUs() ([]string, error) { return nil, errNoCUDA }

func openGPU() (place, error) { return nil, errNoCUDA }
