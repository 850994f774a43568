package perf

// Iteration is one step of training in quantities of its own. Its time on some
// hardware, and what it keeps busy there, follow from the analytic model of
// "Characterizing Deep Learning Training Workloads on Alibaba-PAI", IISWC 2019.
// Input, computation and synchronisation come one after the other. Each
// resource runs at 70 % of its peak, except the way to the host, which input
// has for itself. The text of the paper was not at hand: formulas and figures
// are from recollection.
type Iteration struct {
	Flops   float64 // floating-point operations
	Memory  float64 // bytes read and written in GPU memory
	Input   float64 // bytes of input from the host
	Weights float64 // bytes of weights and gradients to synchronise
	Sync    Sync
}

// Sync is how the workers of a job synchronise.
type Sync uint8

// The ways to synchronise.
const (
	NoSync          Sync = iota // one worker
	AllReduceLocal              // within a node, over its links
	AllReduce                   // between nodes, over the network
	ParameterServer             // over the network and the way to the host
)

// Hardware is the peaks of a GPU and of the ways from it, in operations and bytes per
// second.
type Hardware struct {
	Flops, Memory, Host, Link, Network float64
}

// PAIHardware is the reference hardware of the paper: 11 TFLOP/s, 1 TB/s, PCIe of 10 GB/s,
// NVLink of 50 GB/s, 25 Gb/s of Ethernet.
func PAIHardware() Hardware {
	return Hardware{Flops: 11e12, Memory: 1e12, Host: 10e9, Link: 50e9, Network: 25e9 / 8}
}

// Efficiency is the part of its peak that a resource reaches.
const Efficiency = 0.7

// IterationTime is the time of a step, part by part, in seconds.
type IterationTime struct {
	Input, Flops, Memory, Host, Link, Network float64 // Host: synchronisation by way of the host
}

// Total is the time of the whole step.
func (t IterationTime) Total() float64 {
	return t.Input + t.Flops + t.Memory + t.Host + t.Link + t.Network
}

// On is the time of a step on hardware where so many GPUs of a node load their
// input by the same way to the host. A part that the step does not have takes
// no time.
func (s Iteration) On(h Hardware, loading int) IterationTime {
	over := func(amount, peak float64) float64 {
		if amount == 0 {
			return 0
		}
		return amount / (Efficiency * peak)
	}
	t := IterationTime{Flops: over(s.Flops, h.Flops), Memory: over(s.Memory, h.Memory)}
	if s.Input > 0 {
		t.Input = s.Input * float64(max(1, loading)) / h.Host
	}
	switch s.Sync {
	case AllReduceLocal:
		t.Link = over(s.Weights, h.Link)
	case AllReduce:
		t.Network = over(s.Weights, h.Network)
	case ParameterServer:
		t.Network, t.Host = over(s.Weights, h.Network), over(s.Weights, h.Host)
	}
	return t
}

// Demand is what a job that only does such steps keeps busy when it is alone: each
// resource for its part of the step. Of processors the model tells nothing.
func (s Iteration) Demand(h Hardware) Demand {
	t := s.On(h, 1)
	all := t.Total()
	if all == 0 {
		return Demand{}
	}
	return Demand{SM: t.Flops / all, Bandwidth: t.Memory / all, HostLink: (t.Input + t.Host) / all}
}
