package predict

import "github.com/norn-scheduler/norn/job"

// maxName bounds the part of a name that is looked at, in bytes.
const maxName = 64

// Name is what is the same in the names of similar jobs: the name without its
// digits, so that counters, dates and hashes of runs do not tell jobs apart,
// each run of anything but letters being one hyphen. A job without a name goes by
// the recurrence key that its source tells. It is empty when nothing is left.
func Name(j *job.Job) string {
	var buf [maxName]byte
	return string(appendName(buf[:0], j))
}

func appendName(out []byte, j *job.Job) []byte {
	raw := j.Name
	if raw == "" && j.Hints != nil {
		return append(out, j.Hints.Group...) // a key has no counter in it
	}
	for i := 0; i < len(raw) && len(out) < maxName; i++ {
		switch c := raw[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c >= 0x80:
			out = append(out, c)
		case len(out) > 0 && out[len(out)-1] != '-':
			out = append(out, '-')
		}
	}
	if n := len(out); n > 0 && out[n-1] == '-' {
		out = out[:n-1]
	}
	return out
}

// Similarity is 1 less the edit distance of two names (Levenshtein) relative to
// the longer one: 1 for equal names, 0 where nothing agrees.
func Similarity(a, b string) float64 {
	a, b = a[:min(len(a), maxName)], b[:min(len(b), maxName)]
	longer := max(len(a), len(b))
	if longer == 0 {
		return 1
	}
	return 1 - float64(distance(a, b))/float64(longer)
}

// Distance is how many bytes must be inserted, deleted or replaced to make one name
// another; of longer ones their beginnings count.
func Distance(a, b string) int { return distance(a[:min(len(a), maxName)], b[:min(len(b), maxName)]) }

// distance is how many bytes must be inserted, deleted or replaced to make a
// name of at most maxName bytes another.
func distance(a, b string) int {
	var row [maxName + 1]int
	for k := range len(b) + 1 {
		row[k] = k
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for k := range len(b) {
			d := diagonal
			if a[i] != b[k] {
				d = 1 + min(d, row[k], row[k+1])
			}
			diagonal, row[k+1] = row[k+1], d
		}
	}
	return row[len(b)]
}
