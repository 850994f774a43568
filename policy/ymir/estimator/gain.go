package estimator

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
)

// Embedding describes a task: for each group of weights of the backbone, how much
// they matter for it (the diagonal of the Fisher matrix, from the gradients that a
// profile measures). Embeddings of one backbone have equal lengths.
type Embedding []float64

// asymmetry is how much it counts for a source that it is a task far from trivial.
// [Task2Vec, section 3.3]
const asymmetry = 0.15

// Similarity is how much a task has to give to another one: 1 for a task to itself,
// less the cosine distance of the two, and more for a source that is complex. It is
// directed. Embeddings of different lengths have nothing in common: 0.
func Similarity(from, to Embedding) float64 {
	if len(from) != len(to) || len(from) == 0 {
		return 0
	}
	trivial := make(Embedding, len(from))
	for i := range trivial {
		trivial[i] = 1
	}
	return 1 - distance(from, to) + asymmetry*(distance(from, trivial)-distance(to, trivial))
}

// distance is the cosine distance of two embeddings, each divided by their sum.
func distance(a, b Embedding) float64 {
	var ab, aa, bb float64
	for i := range a {
		sum := a[i] + b[i]
		if !(sum > 0) {
			continue
		}
		x, y := a[i]/sum, b[i]/sum
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 1
	}
	return 1 - ab/math.Sqrt(aa*bb)
}

// Both is the similarity that counts for two tasks that are trained together.
func Both(ab, ba float64) float64 { return (ab + ba) / 2 }

// Line is the linear regression of gains on similarities, one for each backbone:
// G = W0 + W1 S.
type Line struct{ W0, W1 float64 }

// Gain is the gain foretold from a similarity.
func (l Line) Gain(similarity float64) float64 { return l.W0 + l.W1*similarity }

var errLine = errors.New("a regression needs as many gains as similarities, and at least two different similarities")

// FitLine finds the line nearest to measured gains, in the sense of least squares.
func FitLine(similarities, gains []float64) (Line, error) {
	n := float64(len(similarities))
	if len(similarities) != len(gains) || n < 2 {
		return Line{}, errLine
	}
	var sx, sy float64
	for i := range similarities {
		sx, sy = sx+similarities[i], sy+gains[i]
	}
	var xx, xy float64
	for i := range similarities {
		d := similarities[i] - sx/n
		xx, xy = xx+d*d, xy+d*(gains[i]-sy/n)
	}
	if !(xx > 0) || math.IsInf(xx, 1) || math.IsNaN(xy) {
		return Line{}, errLine
	}
	w1 := xy / xx
	return Line{W0: (sy - w1*sx) / n, W1: w1}, nil
}

// Noise makes estimates wrong on purpose: each by a factor that is uniform between
// 1-x and 1+x, and always the same for the same seed and keys.
type Noise struct {
	Share float64 // x, 0 to 1
	Seed  uint64
}

// Factor is the factor for an estimate with these keys.
func (n Noise) Factor(keys ...int64) float64 {
	if n.Share == 0 {
		return 1
	}
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n.Seed)
	h.Write(b[:])
	for _, k := range keys {
		binary.LittleEndian.PutUint64(b[:], uint64(k))
		h.Write(b[:])
	}
	// The low bits of such a hash are mixed badly; spread them.
	x := h.Sum64()
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	return 1 + n.Share*(2*float64(x>>11)/(1<<53)-1)
}
