package perf

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// Sharer is a job on a device, and the part of the device that it holds. Its demand is
// multiplied by Load at the moment, as that of a service changes by the hour; 0: by 1.
type Sharer struct {
	Job   *job.Job
	Share cluster.Share
	Load  float64
}

// Throttled is the part of the time for which it is kept from using the device.
func (s Sharer) Throttled() float64 { return min(1, max(0, float64(s.Share.Throttle)/1000)) }

// Portioned is a Sharing that goes by the parts that jobs hold of a device as well.
type Portioned interface {
	Sharing
	// Among is the factor on the speed of a job, from 0 to 1, with its part of a
	// device of type t beside others with theirs. It is 0 when the job stands still
	// there, and above 1 where a batch (Share.Batch) suits it better than its own.
	Among(s Sharer, others []Sharer, t cluster.GPUType) float64
}

// Among is the factor on the speed of a job, from 0 to 1, with its part of a
// device beside others with theirs, under any Sharing. A Sharing that is not
// Portioned is taken to describe jobs that are frozen for a part of the time,
// each at moments independent of the others. The factor is the mean over those
// moments.
func Among(m Sharing, s Sharer, others []Sharer, t cluster.GPUType) float64 {
	if p, ok := m.(Portioned); ok {
		return p.Among(s, others, t)
	}
	awake := 1 - s.Throttled()
	if awake == 0 {
		return 0
	}
	return awake * meanBeside(m, s.Job, nil, others, t)
}

// meanBeside is the mean of Beside over the moments in which those of others who are
// throttled are frozen or not, beside those who are awake for sure.
func meanBeside(m Sharing, j *job.Job, awake []*job.Job, others []Sharer, t cluster.GPUType) float64 {
	for i, o := range others {
		off := o.Throttled()
		if off == 0 {
			awake = append(awake, o.Job)
			continue
		}
		rest := others[i+1:]
		factor := off * meanBeside(m, j, awake, rest, t)
		if off < 1 {
			factor += (1 - off) * meanBeside(m, j, append(awake[:len(awake):len(awake)], o.Job), rest, t)
		}
		return factor
	}
	if len(awake) == 0 {
		return 1
	}
	return m.Beside(j, awake, t)
}

// Among implements Portioned. A job that is throttled for a part of the time
// launches its work that much more slowly. So the other jobs feel that much
// less of all its demands. Itself it demands all of that while it is awake, and
// runs for that much less of the time.
func (m Demands) Among(s Sharer, others []Sharer, t cluster.GPUType) float64 {
	awake := 1 - s.Throttled()
	busy := 0
	own := m.of(s.Job, t)
	sum := own
	for _, o := range others {
		part := 1 - o.Throttled()
		if part == 0 {
			continue
		}
		busy++
		for r, d := range m.of(o.Job, t) {
			sum[r] += part * d
		}
	}
	return awake * m.factor(own, sum, busy, t)
}
