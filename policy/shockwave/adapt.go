package shockwave

import "github.com/norn-scheduler/norn/sched"

// adapt forecasts a job that changes its batch size. whole is how many seconds all its
// epochs would take with its own batch, and done the part of them that it has done. It
// knows the batch sizes that the job declares, how long an epoch takes with each, and the
// epochs that it has done with each by its reports. In which order they will come is not
// known.
func (x *Job) adapt(j sched.Job, whole, done float64) {
	now, declared := j.Spec().Mode(j.Config().Reported.Batch)
	if !declared || x.Done >= x.Epochs {
		return
	}
	f := Forecast{Epochs: x.Epochs, Done: x.Done}
	took, seen := 0.0, 0
	for i, m := range j.Spec().Hints.Modes {
		if m.Batch == 0 {
			break
		}
		mode := Mode{Epoch: whole / float64(x.Epochs) / m.Pace, Seen: int(j.Config().Spent[i])}
		if i == now {
			mode.Seen += max(1, x.Done+1-int(j.Config().Reported.Epoch))
		}
		took += float64(mode.Seen) * mode.Epoch
		seen += mode.Seen
		f.Modes = append(f.Modes, mode)
	}
	ahead := float64(x.Epochs) * (1 - done)
	x.Epoch = took / float64(seen)
	x.Left = f.Left(true) * ahead / float64(x.Epochs-x.Done)
	x.Spent = took - f.Modes[now].Epoch*(1-(float64(x.Epochs)*done-float64(x.Done)))
}
