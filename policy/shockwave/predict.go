package shockwave

import "math"

// Forecast is what is known of the changes of a job's batch size. It has the
// number of epochs. For each batch size that the job may use, it has the time
// of an epoch and the number of epochs so far, including the running one. When
// it will change is not known.
type Forecast struct {
	Epochs, Done int
	Modes        []Mode
}

// Mode is a batch size.
type Mode struct {
	Epoch float64 // seconds of an epoch
	Seen  int     // epochs of those done, and the running one
}

// Left is how many seconds the job will still take, by a Dirichlet posterior over
// its batch sizes: at first all of them are as likely, and each epoch that was seen
// counts as much as each that was expected. unbiased counts the running epoch as
// one to be done; the published code leaves it out, and is one epoch short.
func (f *Forecast) Left(unbiased bool) float64 {
	left := f.Epochs - f.Done
	if left <= 0 || len(f.Modes) == 0 {
		return 1
	}
	prior := float64(f.Epochs) / float64(len(f.Modes))
	sum := 0.0
	for _, m := range f.Modes {
		sum += prior + float64(m.Seen)
	}
	count, time, mean := 0.0, 0.0, 0.0
	for _, m := range f.Modes {
		n := float64(f.Epochs) * (prior + float64(m.Seen)) / sum
		mean += n * m.Epoch / float64(f.Epochs)
		for range m.Seen {
			if n >= 1 {
				n--
			}
		}
		count += n
		time += n * m.Epoch
	}
	if unbiased {
		if count > 0 {
			mean = time / count
		}
		return mean * float64(left)
	}
	return time * float64(left) / max(math.Floor(count+1+1e-9), float64(left))
}

// Due is when a job would end with a fair share, as it was estimated in the past: a
// value for each round in which jobs came or left, weighted by how long it held.
type Due struct {
	Mean   float64 // of the values before the last
	Rounds int     // for which those held
	Last   float64
	Since  int // the round of the last
}

// NewDue begins with one value.
func NewDue(round int, value float64) Due { return Due{Last: value, Since: round} }

// Add appends a value. Of several in one round the last counts.
func (d *Due) Add(round int, value float64) {
	if n := round - d.Since; n > 0 {
		d.Mean = (d.Mean*float64(d.Rounds) + d.Last*float64(n)) / float64(d.Rounds+n)
		d.Rounds += n
	}
	d.Last, d.Since = value, round
}

// momentum is the weight of the average against the last value.
const momentum = 0.9

// At is the value to be held against in a round.
func (d *Due) At(round int) float64 {
	n := round - d.Since
	mean := d.Last
	if d.Rounds+n > 0 {
		mean = (d.Mean*float64(d.Rounds) + d.Last*float64(n)) / float64(d.Rounds+n)
	}
	return momentum*mean + (1-momentum)*d.Last
}
