package main

import (
	"fmt"
	"sort"

	"github.com/norn-scheduler/norn/trace/gen/internal/logs"
)

// fractions writes the parts of a GPU that PAI tasks ask for, with the median
// CPU and memory of openb pods that ask for about as much.
func (w *source) fractions(path string) error {
	pods, err := logs.OpenbPods(path)
	if err != nil {
		return err
	}
	w.line("fractions: []fraction{")
	for _, f := range []struct {
		milli int
		share float64
		span  span
	}{{250, .2, span{1, 299}}, {500, .34, span{300, 599}}, {1000, .46, span{1000, 1000}}} {
		var cpu, memory []int
		for _, p := range pods {
			if f.span.has(p.Milli) {
				cpu, memory = append(cpu, p.CPU), append(memory, p.MiB)
			}
		}
		if len(cpu) == 0 {
			return fmt.Errorf("%s: no pod asks for %d milli", path, f.milli)
		}
		sort.Ints(cpu)
		sort.Ints(memory)
		w.line("{gpu: %d, cpu: %d, memory: %d << 20, share: %s},", f.milli, cpu[len(cpu)/2], memory[len(memory)/2], figure(f.share))
	}
	w.line("},")
	return nil
}
