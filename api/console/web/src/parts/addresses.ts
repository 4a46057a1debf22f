/** Return a part of a path as text; as it is if it is no valid encoding, such as `100%`. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
