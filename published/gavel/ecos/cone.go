package ecos

import "math"

// cone is a second-order cone: rows whose first slack is not below the length of the
// others. Its scaling W, of Nesterov and Todd, is eta times
//
//	a  q'
//	q  1 + qq'/(1+a)    with a² - q·q = 1
type cone struct {
	from, to int // its rows
	eta, a   float64
	q        []float64
}

// newCones are cones of so many rows each, which end with row m.
func newCones(sizes []int, m int) []cone {
	var cones []cone
	for _, n := range sizes {
		m -= n
	}
	for _, n := range sizes {
		cones = append(cones, cone{from: m, to: m + n, eta: 1, a: 1, q: make([]float64, n-1)})
		m += n
	}
	return cones
}

// excess is u0² - |u1|², which is above zero inside the cone.
func excess(u []float64) float64 { return u[0]*u[0] - dot(u[1:], u[1:]) }

// scaling finds the W with which Ws⁻¹ and Wz are the same. It fails outside the cone.
func (k *cone) scaling(s, z []float64) bool {
	s, z = s[k.from:k.to], z[k.from:k.to]
	es, ez := excess(s), excess(z)
	if !(es > 0 && ez > 0 && s[0] > 0 && z[0] > 0) {
		return false
	}
	ns, nz := math.Sqrt(es), math.Sqrt(ez)
	k.eta = math.Sqrt(ns / nz)
	gamma := math.Sqrt(0.5 * (1 + dot(s, z)/(ns*nz)))
	k.a = 0.5 / gamma * (s[0]/ns + z[0]/nz)
	for i := range k.q {
		k.q[i] = 0.5 / gamma * (s[i+1]/ns - z[i+1]/nz)
	}
	return true
}

// times is W u, over its inverse W⁻¹ u. Both may be in place.
func (k *cone) times(u, out []float64) { k.turn(u, out, k.eta, 1) }
func (k *cone) over(u, out []float64)  { k.turn(u, out, 1/k.eta, -1) }

func (k *cone) turn(u, out []float64, eta, sign float64) {
	u, out = u[k.from:k.to], out[k.from:k.to]
	along := sign * dot(k.q, u[1:])
	first := eta * (k.a*u[0] + along)
	f := sign * (u[0] + along/(1+k.a))
	for i, q := range k.q {
		out[i+1] = eta * (u[i+1] + f*q)
	}
	out[0] = first
}

// product is u ∘ v.
func (k *cone) product(u, v, out []float64) {
	u, v, out = u[k.from:k.to], v[k.from:k.to], out[k.from:k.to]
	first := dot(u, v)
	for i := 1; i < len(u); i++ {
		out[i] = u[0]*v[i] + v[0]*u[i]
	}
	out[0] = first
}

// divide is the x with u ∘ x = v.
func (k *cone) divide(u, v, out []float64) {
	u, v, out = u[k.from:k.to], v[k.from:k.to], out[k.from:k.to]
	along := dot(u[1:], v[1:])
	e := excess(u)
	first := (u[0]*v[0] - along) / e
	f := (along/u[0] - v[0]) / e
	for i := 1; i < len(u); i++ {
		out[i] = f*u[i] + v[i]/u[0]
	}
	out[0] = first
}

// reach is how much of d can be added to lambda so that it stays inside: 1 over what
// is returned, without end where that is not above 0.
func (k *cone) reach(lambda, d []float64) float64 {
	lambda, d = lambda[k.from:k.to], d[k.from:k.to]
	e := excess(lambda)
	if !(e > 0) {
		return 0
	}
	length := math.Sqrt(e)
	along := (lambda[0]*d[0] - dot(lambda[1:], d[1:])) / length
	f := (along + d[0]) / (lambda[0]/length + 1)
	square := 0.0
	for i := 1; i < len(d); i++ {
		r := (d[i] - f*lambda[i]/length) / length
		square += r * r
	}
	return math.Sqrt(square) - along/length
}

// gather adds up the part of a cone in G' W⁻² G, which is that of W⁻¹ G times itself.
func (k *cone) gather(rows []Row, n int, a []float64) {
	at := map[int]int{}
	var index []int
	for r := k.from; r < k.to; r++ {
		for _, i := range rows[r].Index {
			if _, ok := at[i]; !ok {
				at[i] = len(index)
				index = append(index, i)
			}
		}
	}
	columns := make([][]float64, len(index))
	whole := cone{to: k.to - k.from, eta: k.eta, a: k.a, q: k.q}
	for c := range columns {
		columns[c] = make([]float64, k.to-k.from)
	}
	for r := k.from; r < k.to; r++ {
		for l, i := range rows[r].Index {
			columns[at[i]][r-k.from] += rows[r].Value[l]
		}
	}
	for c, i := range index {
		whole.over(columns[c], columns[c])
		for d, j := range index[:c+1] {
			a[max(i, j)*n+min(i, j)] += dot(columns[c], columns[d])
		}
	}
}
