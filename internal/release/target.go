package main

import (
	"fmt"
	"slices"
	"strings"
)

// A target is what programs are built for.
type target struct {
	os, arch string
	static   bool // Linux: without a C library, and so without GPUs
}

// String is the target as -targets takes it: "linux/amd64/static".
func (t target) String() string {
	s := t.os + "/" + t.arch
	if t.static {
		s += "/static"
	}
	return s
}

// allTargets are the targets of a release.
func allTargets() []target {
	return []target{
		{"linux", "amd64", false}, {"linux", "amd64", true},
		{"linux", "arm64", false}, {"linux", "arm64", true},
		{"darwin", "amd64", false}, {"darwin", "arm64", false},
	}
}

// parseTargets reads "all", or targets by comma. Its error names the target that is unknown.
func parseTargets(s string) ([]target, error) {
	if s == "all" {
		return allTargets(), nil
	}
	var list []target
	for name := range strings.SplitSeq(s, ",") {
		i := slices.IndexFunc(allTargets(), func(t target) bool { return t.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("target %q is none of %v", name, allTargets())
		}
		list = append(list, allTargets()[i])
	}
	return list, nil
}
