"""Numbers of the plane: vectors, angles, rays, and axes in the order that the machine likes; knows no world."""
