"""Operations on a study's whole folder: mirror, archive, copy, clean and remove."""
